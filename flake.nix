{
  description = "One MCP tool, run_python: model-written Python in a verified, persistent, hardened container";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      linux = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      darwin = [ "aarch64-darwin" ];
      pkgsFor = system: nixpkgs.legacyPackages.${system};
      ownFor = system: import ./nix/packages.nix (pkgsFor system);
      eachOf = systems: f: lib.genAttrs systems (system: f system (pkgsFor system));
      each = eachOf (linux ++ darwin);
    in
    {
      packages = each (
        system: _:
        let
          own = ownFor system;
        in
        {
          default = own.bridge;
          inherit (own) bridge-unwrapped;
        }
        // lib.optionalAttrs (lib.elem system linux) { inherit (own) guest-image; }
      );

      # Asking for the guest image says why a system has none: commands look here after `packages`.
      legacyPackages = eachOf darwin (system: _: { inherit (ownFor system) guest-image; });

      apps = each (
        system: pkgs:
        let
          app = package: {
            type = "app";
            program = lib.getExe package;
            meta.description = package.meta.description;
          };
        in
        {
          default = app self.packages.${system}.default;
          demo = app (pkgs.callPackage ./nix/demo.nix { bridge = self.packages.${system}.default; });
        }
      );

      overlays.default =
        final: _prev:
        let
          own = import ./nix/packages.nix final;
        in
        {
          mcp-code-bridge = own.bridge;
          mcp-code-bridge-unwrapped = own.bridge-unwrapped;
          mcp-code-bridge-guest-image = own.guest-image;
        };

      nixosModules.default = lib.modules.importApply ./nix/nixos-module.nix { inherit self; };
      homeModules.default = lib.modules.importApply ./nix/home-module.nix { inherit self; };

      checks = eachOf linux (system: pkgs: import ./nix/checks.nix { inherit self system pkgs; });

      devShells = each (
        system: pkgs: {
          default = pkgs.callPackage ./nix/shell.nix {
            inherit (self.packages.${system}) bridge-unwrapped;
          };
        }
      );

      formatter = each (_: pkgs: pkgs.nixfmt-tree);
    };
}
