# The part of nixpkgs' lib that this project's Nix code uses: the interface is nixpkgs', the code
# the project's own.
let
  b = builtins;
  core = rec {
    inherit (b)
      all
      any
      concatLists
      concatMap
      attrNames
      attrValues
      concatStringsSep
      elem
      elemAt
      filter
      fromJSON
      functionArgs
      genList
      hasAttr
      head
      isAttrs
      isFunction
      isInt
      isList
      isString
      length
      listToAttrs
      map
      mapAttrs
      match
      pathExists
      readFile
      removeAttrs
      replaceStrings
      sort
      tail
      toJSON
      toString
      ;
    version = "hostpkgs";
    id = x: x;
    flip =
      f: x: y:
      f y x;
    genAttrs =
      names: f:
      listToAttrs (
        map (name: {
          inherit name;
          value = f name;
        }) names
      );
    nameValuePair = name: value: { inherit name value; };
    mapAttrsToList = f: s: map (n: f n s.${n}) (attrNames s);
    mapAttrs' = f: s: listToAttrs (mapAttrsToList f s);
    filterAttrs =
      p: s: listToAttrs (map (n: nameValuePair n s.${n}) (filter (n: p n s.${n}) (attrNames s)));
    optional = c: x: if c then [ x ] else [ ];
    optionals = c: xs: if c then xs else [ ];
    optionalString = c: s: if c then s else "";
    optionalAttrs = c: s: if c then s else { };
    concatMapStringsSep =
      sep: f: xs:
      concatStringsSep sep (map f xs);
    concatMapStrings = concatMapStringsSep "";
    concatStrings = concatStringsSep "";
    concatLines = xs: concatMapStrings (x: x + "\n") xs;
    makeBinPath = ps: concatMapStringsSep ":" (p: "${p}/bin") ps;
    hasPrefix = p: s: b.substring 0 (b.stringLength p) s == p;
    hasSuffix =
      p: s:
      let
        n = b.stringLength s - b.stringLength p;
      in
      n >= 0 && b.substring n (-1) s == p;
    removeSuffix =
      p: s: if hasSuffix p s then b.substring 0 (b.stringLength s - b.stringLength p) s else s;
    removePrefix = p: s: if hasPrefix p s then b.substring (b.stringLength p) (-1) s else s;
    escapeShellArg =
      s:
      let
        t = toString s;
      in
      if match "[[:alnum:],._+:@%/-]+" t != null then t else "'${replaceStrings [ "'" ] [ "'\\''" ] t}'";
    escapeShellArgs = concatMapStringsSep " " escapeShellArg;
    getExe = p: "${p}/bin/${p.meta.mainProgram or p.pname}";
    getExe' = p: n: "${p}/bin/${n}";
    importTOML = p: b.fromTOML (readFile p);
    modules.importApply = path: args: {
      _file = toString path;
      imports = [ (import path args) ];
    };
    importJSON = p: fromJSON (readFile p);
    recursiveUpdate =
      l: r:
      l
      // mapAttrs (n: v: if isAttrs v && isAttrs (l.${n} or null) then recursiveUpdate l.${n} v else v) r;
    foldl' = b.foldl';
    fix =
      f:
      let
        x = f x;
      in
      x;
    extends =
      ov: f: final:
      let
        prev = f final;
      in
      prev // ov final prev;
    toFunction = f: if isFunction f then f else _: f;
    makeOverridable =
      f: args:
      let
        r = f args;
      in
      if isAttrs r then
        r // { override = new: makeOverridable f (args // (if isFunction new then new args else new)); }
      else
        r;
    callPackageWith =
      scope: fn: args:
      let
        f = if isFunction fn then fn else import fn;
      in
      makeOverridable f (b.intersectAttrs (functionArgs f) scope // args);
    stringToCharacters = s: b.genList (i: b.substring i 1 s) (b.stringLength s);
    toUpper = replaceStrings (stringToCharacters "abcdefghijklmnopqrstuvwxyz") (
      stringToCharacters "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    );
    toLower = replaceStrings (stringToCharacters "ABCDEFGHIJKLMNOPQRSTUVWXYZ") (
      stringToCharacters "abcdefghijklmnopqrstuvwxyz"
    );
    last = xs: elemAt xs (length xs - 1);
    init = xs: genList (elemAt xs) (length xs - 1);
    assertMsg = condition: message: condition || throw message;
    hasInfix = part: s: length (b.split (escapeRegex part) s) > 1;
    escapeRegex =
      let
        special = [
          "\\"
          "["
          "]"
          "{"
          "}"
          "("
          ")"
          "^"
          "$"
          "."
          "*"
          "+"
          "?"
          "|"
        ];
      in
      replaceStrings special (map (c: "\\${c}") special);
    splitString = separator: s: filter isString (b.split (escapeRegex separator) s);
    findFirst =
      wanted: default: xs:
      let
        found = filter wanted xs;
      in
      if found == [ ] then default else head found;
    # Runs of other characters become a dash, a leading dot is dropped.
    sanitizeDerivationName =
      s:
      removePrefix "." (
        concatMapStrings (part: if isString part then part else "-") (b.split "[^[:alnum:]+._?=-]+" s)
      );
    strings = { inherit sanitizeDerivationName; };
    platforms = {
      darwin = [ "aarch64-darwin" ];
      linux = [
        "x86_64-linux"
        "aarch64-linux"
      ];
    };
    licenses = genAttrs [ "asl20" "mit" ] id;
    fileset = rec {
      # union of existing paths only; enough for `toSource { root; fileset = unions [...]; }`
      unions = id;
      toSource =
        { root, fileset }:
        b.path {
          path = root;
          name = "source";
          filter =
            p: _:
            let
              s = toString p;
            in
            b.any (
              f:
              let
                q = toString f;
              in
              s == q || hasPrefix "${q}/" s || hasPrefix "${s}/" q
            ) fileset;
        };
    };
    runTests =
      tests:
      b.concatLists (
        mapAttrsToList (
          name: t:
          optional (t.expr != t.expected) {
            inherit name;
            inherit (t) expected;
            result = t.expr;
          }
        ) (filterAttrs (n: _: hasPrefix "test" n) tests)
      );
  };
  lib = core // import ./modules.nix { inherit lib; };
in
lib
