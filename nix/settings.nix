# The settings of bridge.yaml as options. Which there are, what they mean and what they accept is
# read from the bridge's own table (keys.json, written by `make reference`); here stands only how
# each kind of value is checked in Nix: never looser than the bridge's parser.
{ lib }:

let
  inherit (lib) types;
  keys = lib.importJSON ../bridge/settings/src/keys.json;

  # A text of digits as a number; null where it is longer than any bound.
  number =
    digits:
    let
      plain = lib.head (builtins.match "0*([0-9]*)" digits);
    in
    if plain == "" then
      0
    else if builtins.stringLength plain > 15 then
      null
    else
      builtins.fromJSON plain;
  within =
    from: to: value:
    value != null && from <= value && (to == null || value <= to);

  bytesPer =
    let
      k = 1024;
    in
    {
      "" = 1;
      k = k;
      m = k * k;
      g = k * k * k;
      t = k * k * k * k;
    };
  # Bytes of a size such as 1.5g; null where it is not one, or not a whole number of bytes.
  sizeOf =
    value:
    let
      parts = builtins.match "([0-9]+)([.]([0-9]{1,6}))? *(([kKmMgGtT])([iI]?[bB])?|[bB])?" value;
      whole = number (lib.elemAt parts 0);
      digits = lib.elemAt parts 2;
      letter = lib.elemAt parts 4;
      unit = bytesPer.${if letter == null then "" else lib.toLower letter};
      scale = lib.foldl' (product: _: product * 10) 1 (lib.stringToCharacters digits);
      scaled = number digits * unit;
    in
    if lib.isInt value then
      value
    else if parts == null || whole == null then
      null
    else if digits == null then
      whole * unit
    else if scaled / scale * scale != scaled then
      null
    else
      whole * unit + scaled / scale;

  millisecondsPer = {
    ms = 1;
    "" = 1000;
    s = 1000;
    m = 60 * 1000;
    h = 3600 * 1000;
    d = 86400 * 1000;
  };
  # Milliseconds of a time such as 500ms; a bare number is seconds.
  timeOf =
    value:
    let
      parts = builtins.match "([0-9]+) *(ms|s|m|h|d)?" value;
      unit = lib.elemAt parts 1;
      count = number (lib.elemAt parts 0);
    in
    if lib.isInt value then
      value * 1000
    else if parts == null || count == null then
      null
    else
      count * millisecondsPer.${if unit == null then "" else unit};

  isLoopback =
    text:
    let
      v4 = builtins.match "127[.]([0-9]{1,3})[.]([0-9]{1,3})[.]([0-9]{1,3}):([0-9]{1,5})" text;
      v6 = builtins.match "\\[::1]:([0-9]{1,5})" text;
      octet = digits: within 0 255 (number digits) && (digits == "0" || !(lib.hasPrefix "0" digits));
      port = digits: within 0 65535 (number digits);
    in
    if v4 != null then
      lib.all octet (lib.init v4) && port (lib.last v4)
    else
      v6 != null && port (lib.head v6);

  isUser =
    text:
    let
      ids = builtins.match "([0-9]+)(:([0-9]+))?" text;
      id = digits: digits == null || within 1 4294967294 (number digits);
    in
    ids != null && id (lib.elemAt ids 0) && id (lib.elemAt ids 2);

  # Text or a number of which `check` holds; `words` say which.
  checked =
    words: check:
    let
      base = types.either types.ints.unsigned types.str;
    in
    types.addCheck base check // { description = words; };
  text = words: check: types.addCheck types.str check // { description = words; };
  absolute = types.strMatching "/.*";

  typeOf =
    key:
    let
      inherit (key) nix;
    in
    {
      integer = types.ints.between nix.from nix.to;
      number = types.either (types.enum [ nix.word ]) (
        types.addCheck types.number (value: value > 0 && value <= nix.to) // { description = key.accepts; }
      );
      size = checked key.accepts (value: within nix.from nix.to (sizeOf value));
      time = checked key.accepts (
        value:
        let
          time = timeOf value;
        in
        within nix.from nix.to time && (nix.whole_seconds -> time / 1000 * 1000 == time)
      );
      choice = types.enum nix.words;
      list = types.listOf (types.enum nix.words);
      switch = types.bool;
      path = types.path;
      switch-or-path = types.either types.bool absolute;
      text = types.strMatching nix.pattern;
      user-and-group = text key.accepts isUser;
      loopback-address = text key.accepts (value: value == nix.word || isLoopback value);
    }
    .${nix.type}
      or (throw "nix/settings.nix does not know the type ${nix.type} of the setting ${key.name}");
in
{
  inherit keys;

  # One option a setting; null, the default, leaves it to the bridge.
  options = lib.listToAttrs (
    map (
      key:
      lib.nameValuePair key.name (
        lib.mkOption {
          type = types.nullOr (typeOf key);
          default = null;
          description = "${key.about}; ${key.accepts}. The bridge's default: ${key.default}.";
        }
      )
    ) keys
  );

  # bridge.yaml: a key a line, in the order of the documentation, so that messages about it name the
  # line. JSON values are YAML.
  render =
    settings:
    lib.concatMapStrings (
      { name, ... }:
      lib.optionalString (settings.${name} != null) "${name}: ${builtins.toJSON settings.${name}}\n"
    ) keys;
}
