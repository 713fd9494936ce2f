# A NixOS machine with the module: podman without root, real calls over the socket and HTTP, and an
# image that was tampered with. Needs KVM and the real nixpkgs: nix build .#checks.x86_64-linux.vm
{ self, testers }:

testers.runNixOSTest {
  name = "mcp-code-bridge";

  nodes.machine =
    { config, pkgs, ... }:
    {
      imports = [ self.nixosModules.default ];
      virtualisation.memorySize = 2048;
      virtualisation.diskSize = 4096;

      services.mcp-code-bridge = {
        enable = true;
        settings.memory = "256m";
        settings.cpus = 1;
        http.enable = true;
        http.tokenFile = "/etc/keys/token";
        servers.vault = {
          command = "${pkgs.python3}/bin/python3";
          args = [ "${./vault.py}" ];
          env.VAULT_KEY._secret = "/etc/keys/vault";
        };
      };
      # In the store for this test alone; /etc/keys is what a secrets manager fills elsewhere.
      environment.etc."keys/token".text = "t0ken-of-the-clients";
      environment.etc."keys/vault".text = "s3cret-of-the-vault";
      environment.etc."client.py".source = ../../tests/nix/client.py;
      environment.etc."flip.py".source = ./flip.py;
      environment.systemPackages = [ pkgs.python3 ];

      # Somebody who runs the bridge for themself, with the engine empty.
      users.users.ann = {
        isNormalUser = true;
        uid = 1000;
        linger = true;
        autoSubUidGidRange = true;
      };
      environment.etc."guest.tar".source = config.services.mcp-code-bridge.package.guest-image.archive;
    };

  testScript = ''
    import hashlib

    client = "python3 /etc/client.py"
    socket = "unix:/run/mcp-code-bridge.sock"
    machine.wait_for_unit("mcp-code-bridge.socket")
    machine.wait_for_unit("user@1000.service")

    with subtest("a call over the socket"):
        assert machine.succeed(f"{client} {socket} 'print(6 * 7)'").strip() == "42"

    with subtest("limits hold"):
        said = machine.fail(f"{client} {socket} 'x = bytearray(400 << 20)'")
        assert "memory" in said.lower(), said

    with subtest("a secret reaches its server as a credential"):
        digest = hashlib.sha256(b"s3cret-of-the-vault").hexdigest()
        assert machine.succeed(f"{client} {socket} 'print(await mcp_vault.digest())' vault").strip() == digest

    with subtest("HTTP with its token, and nobody without"):
        machine.wait_for_open_port(8722)
        address = "http://127.0.0.1:8722/mcp"
        assert machine.succeed(f"MCP_TOKEN=t0ken-of-the-clients {client} {address} 'print(6 * 7)'").strip() == "42"
        machine.fail(f"MCP_TOKEN=wrong {client} {address} 'print(1)'")

    with subtest("the unit is hardened"):
        machine.succeed("systemd-analyze security --threshold=25 mcp-code-bridge-http.service")

    with subtest("an image that was tampered with is refused"):
        as_ann = "runuser -u ann -- env XDG_RUNTIME_DIR=/run/user/1000 mcp-code-bridge"
        machine.succeed("cp -L /etc/guest.tar /tmp/guest.tar && chmod u+w /tmp/guest.tar")
        machine.succeed("python3 /etc/flip.py /tmp/guest.tar")
        status, said = machine.execute(f"{as_ann} run -c 'print(1)' --set image_archive=/tmp/guest.tar 2>&1")
        assert status == 3, (status, said)
        assert machine.succeed(f"{as_ann} run -c 'print(6 * 7)' --set image_archive=/etc/guest.tar").strip() == "42"

    with subtest("doctor finds nothing wrong"):
        machine.succeed("runuser -u ann -- env XDG_RUNTIME_DIR=/run/user/1000 mcp-code-bridge doctor")
  '';
}
