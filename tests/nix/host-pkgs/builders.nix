# The small builders: runCommand, writers, links, formats.
{ lib, final }:
rec {
  runCommand =
    name: arguments: buildCommand:
    final.stdenv.mkDerivation ({ inherit name; } // arguments // { inherit buildCommand; });
  runCommandLocal = runCommand;

  writeTextFile =
    {
      name,
      text,
      executable ? false,
      destination ? "",
      meta ? { },
      ...
    }:
    runCommand name
      {
        inherit text meta;
        passAsFile = [ "text" ];
      }
      ''
        mkdir -p "$(dirname "$out${destination}")"
        cp "$textPath" "$out${destination}"
        ${lib.optionalString executable "chmod +x \"$out${destination}\""}
      '';
  writeText = name: text: writeTextFile { inherit name text; };
  writeShellScript =
    name: text:
    writeTextFile {
      inherit name;
      executable = true;
      text = "#!/bin/bash\n${text}";
    };
  writeShellScriptBin =
    name: text:
    writeTextFile {
      inherit name;
      executable = true;
      destination = "/bin/${name}";
      text = "#!/bin/bash\n${text}";
      meta.mainProgram = name;
    };
  writeShellApplication =
    {
      name,
      text,
      runtimeInputs ? [ ],
      meta ? { },
      ...
    }:
    writeTextFile {
      inherit name;
      executable = true;
      destination = "/bin/${name}";
      text = "#!/bin/bash\nset -euo pipefail\nexport PATH=${lib.makeBinPath runtimeInputs}:$PATH\n${text}";
      meta = meta // {
        mainProgram = name;
      };
    };

  linkFarm =
    name: entries:
    runCommand name { } (
      "mkdir $out; cd $out\n"
      +
        lib.concatMapStrings
          (
            entry:
            "mkdir -p \"$(dirname ${lib.escapeShellArg entry.name})\"; ln -s ${lib.escapeShellArg "${entry.path}"} ${lib.escapeShellArg entry.name}\n"
          )
          (
            if lib.isList entries then
              entries
            else
              lib.mapAttrsToList (name: path: { inherit name path; }) entries
          )
    );
  symlinkJoin =
    {
      name,
      paths,
      postBuild ? "",
      ...
    }@arguments:
    runCommand name
      (removeAttrs arguments [
        "name"
        "paths"
        "postBuild"
      ])
      ''
        mkdir $out
        for path in ${toString paths}; do cp -rs --no-preserve=mode "$path"/. $out/; done
        ${postBuild}
      '';

  # YAML is a superset of JSON.
  formats = lib.genAttrs [ "json" "yaml" "toml" ] (
    _: _: {
      type = lib.types.anything;
      generate = name: value: writeText name (builtins.toJSON value);
    }
  );
}
