# What the modules make of a configuration, and what they refuse. Evaluation only: nothing is built.
{
  self,
  lib,
  pkgs,
  python3,
  runCommand,
}:

let
  inherit (import ./evaluate.nix { inherit self lib pkgs; })
    complaints
    evaluates
    home
    machine
    nixos
    ;
  # The machine with these options, and the user.
  system =
    config:
    nixos {
      services.mcp-code-bridge = {
        enable = true;
      }
      // config;
    };
  user =
    config:
    home {
      programs.mcp-code-bridge = {
        enable = true;
      }
      // config;
    };
  # That one complaint is made, which begins as said.
  complains = system: start: {
    expr = map (lib.hasPrefix start) (complaints system);
    expected = [ true ];
  };
  accepts = system: {
    expr = complaints system;
    expected = [ ];
  };
  refuses = value: {
    expr = evaluates value;
    expected = false;
  };
  # As it is given to the real runNixOSTest.
  vm = import ./vm.nix {
    inherit self;
    testers.runNixOSTest = test: test;
  };

  world = {
    inherit
      accepts
      complains
      complaints
      evaluates
      home
      lib
      machine
      nixos
      refuses
      system
      user
      vm
      ;
    own = self.packages.${pkgs.stdenv.hostPlatform.system};
    instance = system: system.systemd.services."mcp-code-bridge@".serviceConfig;
    github = {
      url = "https://mcp.example.org/";
      headers.Authorization._secret = "/run/keys/github";
    };
  };
  tests = import ./service.nix world // import ./configuration.nix world;
  failures = lib.runTests tests;
in
if failures == [ ] then
  runCommand "module-tests"
    {
      nativeBuildInputs = [ python3 ];
      passed = lib.length (lib.attrNames tests);
      inherit (vm) testScript;
    }
    ''
      python3 -c 'import os; compile(os.environ["testScript"], "testScript", "exec")'
      echo "modules: $passed tests passed, 0 failed" | tee $out
    ''
else
  throw "modules: ${toString (lib.length failures)} tests failed: ${
    lib.concatMapStrings (failure: "\n  ${builtins.toJSON failure}") failures
  }"
