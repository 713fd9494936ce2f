//! Variables in definitions: what each client means by them, and bounds.

use super::*;
use crate::dialect;

fn expand_as(dialect: &Dialect, text: &str) -> (Result<String, String>, Found) {
    let environment = [
        ("A", "1"),
        ("EMPTY", ""),
        ("TOKEN", "ghp_secret_value"),
        ("lower", "l"),
        ("HOME", "/home/u"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let variables = Variables {
        environment: &environment,
        home: Path::new("/home/u"),
        workspace: Path::new("/work/project"),
        dialect,
    };
    let mut found = Found::default();
    let field = if text.starts_with("echo ") {
        "args"
    } else {
        "env.X"
    };
    let result = variables
        .expand(text, field, &mut found)
        .map_err(|reason| reason.to_string());
    (result, found)
}

#[test]
fn variables_are_expanded() {
    for (text, expected) in [
        ("plain", "plain"),
        ("${A}", "1"),
        ("${ A }", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("${env:A}", "1"),
        ("${NOPE:-d}", "d"),
        ("${NOPE:-}", ""),
        ("${env:NOPE:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${NOPE:-${A}}", "1"),
        ("${NOPE:-${NADA:-x${A}}}", "x1"),
        ("${NOPE:-a:-b}", "a:-b"),
        ("{env:A}", "1"),
        ("${userHome}/x", "/home/u/x"),
        ("${workspaceFolder}/.env", "/work/project/.env"),
        ("${workspaceFolderBasename}", "project"),
        ("${CLAUDE_PROJECT_DIR}", "/work/project"),
        ("$${A}", "${A}"),
        ("pa$$word", "pa$$word"),
        ("100$", "100$"),
        ("$A {A} }{", "$A {A} }{"),
        ("{\"json\": {\"a\": 1}}", "{\"json\": {\"a\": 1}}"),
        ("ä${A}ö", "ä1ö"),
    ] {
        let (result, found) = expand_as(&dialect::GENERIC, text);
        assert_eq!(result.as_deref(), Ok(expected), "{text}");
        assert_eq!(found.warnings, [], "{text}");
    }
}

#[test]
fn an_unset_variable_names_itself_and_its_field() {
    for text in ["${NOPE}", "${env:NOPE}", "{env:NOPE}", "${EMPTY:-${NOPE}}"] {
        let message = expand_as(&dialect::GENERIC, text).0.expect_err(text);
        assert!(
            message.contains("NOPE") && message.contains("env.X"),
            "{message}"
        );
    }
    assert!(
        expand_as(&dialect::GENERIC, "${A")
            .0
            .expect_err("open")
            .contains("not closed")
    );
    assert!(
        expand_as(&dialect::GENERIC, "${input:key}")
            .0
            .expect_err("input")
            .contains("VS Code")
    );
    assert!(
        expand_as(&dialect::GENERIC, "${command:x.y}")
            .0
            .expect_err("command")
            .contains("VS Code")
    );
}

#[test]
fn each_client_keeps_its_own_forms() {
    assert_eq!(
        expand_as(&dialect::GEMINI, "$A-$lower-$other").0.as_deref(),
        Ok("1-l-$other")
    );
    assert!(expand_as(&dialect::GEMINI, "$NOPE").0.is_err());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "from-a-file\n").unwrap();
    let brace = format!("{{file:{}}}", path.display());
    assert_eq!(
        expand_as(&dialect::OPENCODE, &brace).0.as_deref(),
        Ok("from-a-file")
    );
    assert_eq!(expand_as(&dialect::GENERIC, &brace).0, Ok(brace));
    // As the Nix modules write it, for credentials of systemd: the folder is a variable.
    let dollar = format!("${{file:${{NOWHERE:-{}}}/key}}", folder.path().display());
    let (result, found) = expand_as(&dialect::GENERIC, &dollar);
    assert_eq!(result.as_deref(), Ok("from-a-file"));
    assert_eq!(found.secrets, ["from-a-file"]);
    assert!(
        expand_as(&dialect::GENERIC, "${file:${NOPE}/key}")
            .0
            .is_err()
    );
    let message = expand_as(&dialect::CLAUDE_PROJECT, &dollar).0;
    assert!(
        message.is_err_and(|message| message.contains("unknown form")),
        "not what a project brings along"
    );
    assert_eq!(
        expand_as(&dialect::WINDSURF, &format!("${{file:{}}}", path.display()))
            .0
            .as_deref(),
        Ok("from-a-file")
    );
    assert!(
        expand_as(&dialect::WINDSURF, "${file:/dev/zero}")
            .0
            .expect_err("device")
            .contains("is a device")
    );
}

#[test]
fn shell_parameters_pass_with_a_warning_that_shows_no_value() {
    let (result, found) = expand_as(&dialect::GENERIC, "echo ${x%.*} ${y:=hunter22}");
    assert_eq!(result.as_deref(), Ok("echo ${x%.*} ${y:=hunter22}"));
    let text: String = found.warnings.iter().map(ToString::to_string).collect();
    assert!(
        text.contains("${x...}") && !text.contains("hunter22"),
        "{text}"
    );
}

#[test]
fn forms_of_other_programs_are_refused_outside_command_lines() {
    for text in [
        "Bearer ${A:?unset}",
        "${A-x}",
        "${env:NOPE:hunter22}",
        "${ENV:A}",
        "${localEnv:A}",
        "${{ secrets.A }}",
        "${MY-VAR}",
        "${}",
    ] {
        let message = expand_as(&dialect::GENERIC, text).0.expect_err(text);
        assert!(
            message.contains("env.X") && !message.contains("hunter22"),
            "{message}"
        );
    }
}

#[test]
fn values_of_variables_are_secret_unless_they_are_places() {
    assert_eq!(
        expand_as(&dialect::GENERIC, "${TOKEN} ${HOME}").1.secrets,
        ["ghp_secret_value"]
    );
}

#[test]
fn nesting_and_growth_are_bounded() {
    let deep = format!("{}x{}", "${NOPE:-".repeat(100_000), "}".repeat(100_000));
    assert!(
        expand_as(&dialect::GENERIC, &deep)
            .0
            .expect_err("deep")
            .contains("deeply")
    );
    let long = "${TOKEN}".repeat(100_000);
    assert!(expand_as(&dialect::GENERIC, &long).0.is_err());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_expansion_panic(text in r"(?s)[${}:A\-~envfil/é ]{0,60}") {
        for dialect in [&dialect::GENERIC, &dialect::GEMINI, &dialect::OPENCODE, &dialect::WINDSURF] {
            let _ = expand_as(dialect, &text);
        }
    }

    #[test]
    fn text_without_variables_stays_itself(text in "[^${]{0,80}") {
        proptest::prop_assert_eq!(expand_as(&dialect::GENERIC, &text).0, Ok(text));
    }

    #[test]
    fn a_reference_never_stays_literal(name in "[A-Z_][A-Z0-9_]{0,8}", before in "[a-z ]{0,5}", after in "[a-z ]{0,5}") {
        let (result, _) = expand_as(&dialect::GENERIC, &format!("{before}${{{name}}}{after}"));
        match result {
            Ok(text) => proptest::prop_assert!(!text.contains("${"), "left as it was"),
            Err(message) => proptest::prop_assert!(message.contains(&name)),
        }
    }
}
