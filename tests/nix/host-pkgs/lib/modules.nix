# Options and modules: enough of evalModules to tell a right configuration from a wrong one, with
# the messages of nixpkgs.
{ lib }:
let
  b = builtins;
  inherit (lib)
    attrNames
    concatStringsSep
    elem
    filter
    hasPrefix
    head
    isAttrs
    isFunction
    isList
    isString
    length
    mapAttrs
    optional
    recursiveUpdate
    ;
in
rec {
  mkOption = a: a // { _type = "option"; };
  mkEnableOption =
    d:
    mkOption {
      type = types.bool;
      default = false;
      description = "Whether to enable ${d}.";
    };
  mkPackageOption =
    pkgs: name:
    {
      default ? name,
      ...
    }:
    mkOption {
      type = types.package;
      default = pkgs.${default};
      description = "The ${name} package to use.";
    };
  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  mkMerge = contents: {
    _type = "merge";
    inherit contents;
  };
  mkOverride = priority: content: {
    _type = "override";
    inherit priority content;
  };
  mkDefault = mkOverride 1000;
  mkForce = mkOverride 50;
  literalExpression = text: {
    _type = "literalExpression";
    inherit text;
  };
  types =
    let
      t = name: check: merge: {
        _type = "option-type";
        inherit name check merge;
        description = name;
      };
      one =
        loc: defs:
        if length defs == 1 || b.all (d: d == head defs) defs then
          head defs
        else
          throw "The option `${concatStringsSep "." loc}' has conflicting definitions";
    in
    rec {
      bool = t "bool" b.isBool one;
      int = t "int" b.isInt one;
      str = t "str" isString one;
      path = t "path" (x: hasPrefix "/" (toString x)) one;
      port = t "port" (x: b.isInt x && x >= 0 && x <= 65535) one;
      package = t "package" (x: isAttrs x && x ? outPath) one;
      ints.positive = t "positive" (x: b.isInt x && x > 0) one;
      ints.unsigned = t "unsigned" (x: b.isInt x && x >= 0) one;
      ints.between =
        low: high:
        t "between ${toString low} and ${toString high}" (x: b.isInt x && low <= x && x <= high) one;
      addCheck = e: check: e // { check = x: e.check x && check x; };
      number = t "number" (x: b.isInt x || b.isFloat x) one;
      strMatching = pattern: t "strMatching ${pattern}" (x: isString x && b.match pattern x != null) one;
      lines = t "lines" isString (_: concatStringsSep "\n");
      enum = vs: t "enum" (x: elem x vs) one;
      anything = t "anything" (_: true) (
        loc: defs:
        if b.all (d: isAttrs d && !(d ? outPath)) defs then
          (attrsOf anything).merge loc defs
        else if b.all isList defs then
          b.concatLists defs
        else
          one loc defs
      );
      nullOr =
        e:
        t "nullOr" (x: x == null || e.check x) (
          loc: defs: if b.all (d: d == null) defs then null else e.merge loc defs
        );
      listOf = e: t "listOf" (x: isList x && b.all e.check x) (_: b.concatLists);
      attrsOf =
        e:
        t "attrsOf" isAttrs (
          loc: defs:
          # What is defined under a condition that does not hold is not there.
          mapAttrs (n: ds: mergeDefs (loc ++ [ n ]) { type = e; } ds) (
            lib.filterAttrs (_: ds: b.concatMap discharge ds != [ ]) (b.zipAttrsWith (_: vs: vs) defs)
          )
        );
      lazyAttrsOf = attrsOf;
      submodule =
        m:
        t "submodule" (x: isAttrs x || isFunction x) (
          loc: defs:
          (evalModules {
            modules = (if isList m then m else [ m ]) ++ map (d: { config = d; }) defs;
            prefix = loc;
          }).config
        );
      # The first type that takes all definitions merges them.
      oneOf =
        ts:
        t "oneOf" (x: b.any (e: e.check x) ts) (
          loc: defs: (head (filter (e: b.all e.check defs) ts ++ [ { merge = one; } ])).merge loc defs
        );
      either =
        x: y:
        oneOf [
          x
          y
        ];
    };
  discharge =
    d:
    if (d._type or "") == "if" then
      (if d.condition then discharge d.content else [ ])
    else if (d._type or "") == "merge" then
      b.concatMap discharge d.contents
    else
      [ d ];
  prio = d: if (d._type or "") == "override" then d.priority else 100;
  mergeDefs =
    loc: opt: defs0:
    let
      defs = b.concatMap discharge defs0 ++ optional (opt ? default) (mkOverride 1500 opt.default);
      best = b.foldl' (m: d: if prio d < m then prio d else m) 9999 defs;
      vals = map (d: if (d._type or "") == "override" then d.content else d) (
        filter (d: prio d == best) defs
      );
      bad = filter (v: !(opt.type.check v)) vals;
    in
    if defs == [ ] then
      (
        if opt.type.name == "submodule" then
          opt.type.merge loc [ ]
        else
          throw "The option `${concatStringsSep "." loc}' was accessed but has no value defined."
      )
    else if bad != [ ] then
      throw "A definition for option `${concatStringsSep "." loc}' is not of type `${opt.type.name}'."
    else
      (opt.apply or lib.id) (opt.type.merge loc vals);
  evalModules =
    {
      modules,
      specialArgs ? { },
      prefix ? [ ],
    }:
    let
      norm =
        m:
        let
          v =
            if isFunction m then
              m args
            else if isAttrs m then
              m
            else
              norm (import m);
        in
        if v ? config || v ? options then
          v
        else
          {
            imports = v.imports or [ ];
            config = removeAttrs v [
              "_file"
              "imports"
            ];
          };
      collect =
        m:
        let
          v = norm m;
        in
        [ v ] ++ b.concatMap collect (v.imports or [ ]);
      all = b.concatMap collect modules;
      args = {
        inherit lib config options;
      }
      // specialArgs
      // argsFrom;
      argsFrom = b.foldl' (a: d: a // d) { } (
        b.concatMap (d: optional (d ? _module) (d._module.args or { })) (
          filter isAttrs (map (m: if isFunction m then { } else (m.config or m)) modules)
        )
      );
      options = b.foldl' recursiveUpdate { } (map (m: m.options or { }) all);
      pushDown =
        d:
        if (d._type or "") == "if" then
          mapAttrs (_: v: mkIf d.condition v) (mergeTop (pushDown' d.content))
        else
          d;
      pushDown' = d: if (d._type or "") == "merge" then map pushDown d.contents else [ (pushDown d) ];
      mergeTop = ds: b.zipAttrsWith (_: vs: if length vs == 1 then head vs else mkMerge vs) ds;
      go =
        loc: opts: defs:
        mapAttrs (
          n: o:
          let
            ds = b.concatMap (d: optional (d ? ${n}) d.${n}) (b.concatMap pushDown' defs);
          in
          if (o._type or "") == "option" then mergeDefs (loc ++ [ n ]) o ds else go (loc ++ [ n ]) o ds
        ) opts
        // (
          let
            unknown = b.concatMap (
              d:
              filter (
                n:
                !(opts ? ${n})
                && !elem n [
                  "_module"
                  "_file"
                  "_type"
                ]
              ) (attrNames d)
            ) (b.concatMap pushDown' defs);
          in
          if unknown == [ ] then
            { }
          else
            throw "The option `${concatStringsSep "." (loc ++ [ (head unknown) ])}' does not exist."
        );
      config = go prefix options (map (m: m.config or { }) all);
    in
    {
      inherit config options;
    };
}
