//! The frame tables of docs/src/protocol.md name the frames of this crate, and their fields.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::value::Error as NoValue;
use serde::de::{Deserializer, Error as _, Visitor};
use serde_json::Value;

use super::*;

/// Frames by name, each with its fields.
type Frames = BTreeMap<String, BTreeSet<String>>;

/// Fields that guests send and the host does not read.
const UNREAD: [(&str, &str); 5] = [
    ("display", "id"),
    ("execution_done", "timings"),
    ("file", "error"),
    ("project_file", "error"),
    ("ready", "pid"),
];

/// The rows of the table below a heading: the first cell names a frame, the second its fields.
fn table(heading: &str) -> Frames {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/protocol.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let rows = section
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2);
    let in_code = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let name = in_code(cells[1]).remove(0);
        (name, in_code(cells[2]).into_iter().collect())
    })
    .collect()
}

/// Asks a type for the fields that it reads; deriving `Deserialize` makes it tell them.
#[derive(Default)]
struct Fields(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut Fields {
    type Error = NoValue;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
        Err(NoValue::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NoValue> {
        self.0 = fields;
        Err(NoValue::custom("only the names were wanted"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields = Fields::default();
    let _ = T::deserialize(&mut fields);
    fields.0
}

/// A frame of each type that the host reads.
const FROM_GUEST: [&str; 13] = [
    r#"{"type":"ready","protocol":1,"python":"","report":{"cap_eff":"","cap_bnd":"","no_new_privs":true,"seccomp":2,"uid":1,"gid":1}}"#,
    r#"{"type":"stdout","data":""}"#,
    r#"{"type":"stderr","data":""}"#,
    r#"{"type":"dropped"}"#,
    r#"{"type":"display","mime":"","data":""}"#,
    r#"{"type":"file","call":1}"#,
    r#"{"type":"execution_done","id":1,"status":"success"}"#,
    r#"{"type":"exit","code":0}"#,
    r#"{"type":"rpc_request","call":1,"method":""}"#,
    r#"{"type":"rpc_cancel","call":1}"#,
    r#"{"type":"fetch"}"#,
    r#"{"type":"project_file","path":""}"#,
    r#"{"type":"collected","id":1}"#,
];

/// Whoever adds a variant has to come here, and then to `FROM_GUEST` and to the page.
fn is_known(frame: &FromGuest<'_>) -> bool {
    match frame {
        FromGuest::Ready(_)
        | FromGuest::Output(..)
        | FromGuest::Dropped(_)
        | FromGuest::Display { .. }
        | FromGuest::File { .. }
        | FromGuest::ExecutionDone(_)
        | FromGuest::Exit { .. }
        | FromGuest::Request { .. }
        | FromGuest::Cancel { .. }
        | FromGuest::Fetch
        | FromGuest::ProjectFile(_)
        | FromGuest::Collected { .. } => true,
        FromGuest::Unknown => false,
    }
}

/// What the host reads of a frame.
fn read_by_host(name: &str) -> Vec<&'static str> {
    let structs = match name {
        "ready" => vec![fields_of::<Ready>()],
        "stdout" | "stderr" => vec![fields_of::<RawOutput<'_>>()],
        "dropped" => vec![fields_of::<RawDropped<'_>>()],
        "display" => vec![fields_of::<RawDisplay<'_>>(), fields_of::<RawOutput<'_>>()],
        "file" => vec![fields_of::<RawPiece<'_>>()],
        "execution_done" => vec![fields_of::<done::RawDone<'_>>()],
        "exit" => vec![fields_of::<RawExit>()],
        "rpc_request" => vec![fields_of::<RawRequest<'_>>(), fields_of::<RawParams>()],
        "rpc_cancel" => vec![fields_of::<RawCancel>()],
        "project_file" => vec![fields_of::<state::RawPiece<'_>>()],
        "collected" => vec![fields_of::<RawCollected>()],
        _ => Vec::new(),
    };
    structs.concat()
}

#[test]
fn frames_from_the_guest_are_on_the_page_with_their_fields() {
    let mut page = table("From the guest");
    for (name, field) in UNREAD {
        let removed = page
            .get_mut(name)
            .is_some_and(|fields| fields.remove(field));
        assert!(removed, "{name} has no field {field} on the page");
    }
    let mut code = Frames::new();
    for line in FROM_GUEST {
        assert!(
            is_known(&FromGuest::parse(line.as_bytes()).unwrap()),
            "{line}"
        );
        let frame: Value = serde_json::from_str(line).unwrap();
        let name = frame["type"].as_str().unwrap();
        let fields = read_by_host(name).into_iter().map(str::to_owned);
        code.insert(name.to_owned(), fields.collect());
    }
    assert_eq!(page, code);
}

/// Adds what a frame, all of whose fields are filled, says to the guest.
fn add(code: &mut Frames, line: &[u8]) {
    let Value::Object(mut frame) = serde_json::from_slice(line).unwrap() else {
        panic!("not an object")
    };
    let name = frame.remove("type").unwrap();
    let fields = code.entry(name.as_str().unwrap().to_owned()).or_default();
    fields.extend(frame.keys().cloned());
}

/// Every variant; one that is new does not compile until it is entered.
fn to_guest() -> Vec<ToGuest<'static>> {
    let limits = ExecuteLimits {
        output_bytes: 1,
        open_files: 1,
        text_bytes: 1,
    };
    let failed = FailedServer {
        name: String::new(),
        message: String::new(),
    };
    let card = ServerCard {
        name: "",
        alias: "",
        description: None,
        tools: Vec::new(),
    };
    let execute = ToGuest::Execute {
        id: 1,
        cell: 1,
        code: "",
        limits,
        servers: Box::leak(Box::new([card.encode()])),
        known: &[],
        failed: Box::leak(Box::new([failed])),
    };
    let mut frames = vec![execute];
    loop {
        let next = match frames[frames.len() - 1] {
            ToGuest::Execute { .. } => ToGuest::ReadFile {
                call: 1,
                path: "",
                offset: 0,
                bytes: 1,
            },
            ToGuest::ReadFile { .. } => ToGuest::Collect {
                id: 1,
                paths: &[],
                deleted: &[],
            },
            ToGuest::Collect { .. } => ToGuest::Forget { paths: &[] },
            ToGuest::Forget { .. } => ToGuest::Interrupt { id: 1 },
            ToGuest::Interrupt { .. } => return frames,
        };
        frames.push(next);
    }
}

#[test]
fn frames_to_the_guest_are_on_the_page_with_their_fields() {
    let page = table("To the guest");
    let mut code = Frames::new();
    for frame in to_guest() {
        let mut line = Vec::new();
        frame.encode(&mut line);
        add(&mut code, &line);
    }
    let file = |view| StateFile {
        path: "",
        bytes: &[],
        view,
    };
    let gone = [String::new()];
    let update = StateUpdate {
        tools: Some(SavedTools {
            saved: Vec::new(),
            own: "",
        }),
        files: vec![file(false), file(true)],
        gone: &gone,
        more: true,
    };
    for frame in State::frames(&update, true) {
        add(&mut code, &serde_json::to_vec(&frame).unwrap());
    }
    let payload = RpcResponse {
        call: 1,
        result: Ok(&Value::Null),
    };
    let error = RpcResponse::refusal(1, "", "");
    add(&mut code, &serde_json::to_vec(&payload).unwrap());
    add(&mut code, &serde_json::to_vec(&error).unwrap());
    assert_eq!(page, code);
}
