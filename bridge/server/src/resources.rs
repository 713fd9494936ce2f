//! Resources: the capabilities, and the files that code leaves in `/workspace/out`, for as long as
//! their sandbox lives.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    ContentBlock, ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate,
};
use serde_json::json;

use super::{Runner, capabilities};
use bridge_common::media;
use bridge_render::{FILE_TEMPLATE, File, Rendered, parse_file_uri, visible};
use bridge_session::{Content, FileError};

/// Lists all current resources.
pub(super) fn list(runner: &dyn Runner) -> ListResourcesResult {
    let files = runner.files().into_iter().flat_map(|(session, files)| {
        files
            .into_iter()
            .map(move |file| link(&File::of(&session, &file)))
    });
    ListResourcesResult::with_all_items(
        [capabilities::resource()]
            .into_iter()
            .chain(files)
            .collect(),
    )
}

/// The template of the addresses that files have.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let mut template = ResourceTemplate::new(FILE_TEMPLATE, "out-file");
    template.description = Some("A file that code has written to /workspace/out".to_owned());
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// Reads the capabilities or a file.
pub(super) async fn read(
    runner: &dyn Runner,
    uri: &str,
    capabilities: &str,
) -> Result<ReadResourceResult, ErrorData> {
    if uri == capabilities::URI {
        return Ok(capabilities::contents(capabilities));
    }
    let Some((session, path)) = parse_file_uri(uri) else {
        let uri: String = uri.chars().take(200).collect();
        let message = format!(
            "no resource {uri}; there are {} and {FILE_TEMPLATE}",
            capabilities::URI
        );
        return Err(ErrorData::resource_not_found(message, None));
    };
    let content = runner
        .read_file(session, &path)
        .await
        .map_err(|error| read_error(&error, uri))?;
    Ok(ReadResourceResult::new(vec![contents(uri, &path, content)]))
}

fn read_error(error: &FileError, uri: &str) -> ErrorData {
    let uri: String = uri.chars().take(200).collect();
    let data = Some(json!({ "uri": uri }));
    match error {
        FileError::Gone { .. } | FileError::Missing { .. } => {
            ErrorData::resource_not_found(error.to_string(), data)
        }
        FileError::TooLarge { .. } => ErrorData::invalid_params(error.to_string(), data),
        FileError::Silent { .. } => ErrorData::internal_error(error.to_string(), data),
    }
}

/// The content as text if both the file's name and its bytes say so, else as Base64.
fn contents(uri: &str, path: &str, content: Vec<u8>) -> ResourceContents {
    let mime = media::of_file(path, &content);
    let (uri, mime_type) = (uri.to_owned(), Some(mime.to_owned()));
    let content = if media::is_text(mime) {
        String::from_utf8(content).map_err(std::string::FromUtf8Error::into_bytes)
    } else {
        Err(content)
    };
    match content {
        Ok(text) => ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text,
            meta: None,
        },
        Err(bytes) => ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob: STANDARD.encode(bytes),
            meta: None,
        },
    }
}

fn link(file: &File) -> Resource {
    let mut resource = Resource::new(file.uri.clone(), visible(&file.name));
    resource.mime_type = Some(file.mime.to_owned());
    resource.size = Some(file.size);
    resource
}

/// What follows the text of an answer: pictures, documents, and links to files.
pub(super) fn blocks<'a>(answer: &'a Rendered<'_>) -> impl Iterator<Item = ContentBlock> + 'a {
    let displays = answer
        .displays()
        .iter()
        .map(|shown| match &shown.display.content {
            Content::Image(bytes) => {
                ContentBlock::image(STANDARD.encode(bytes), shown.display.mime)
            }
            Content::Text(text) => ContentBlock::resource(ResourceContents::TextResourceContents {
                uri: shown.uri(),
                mime_type: Some(shown.display.mime.to_owned()),
                text: visible(text).into_owned(),
                meta: None,
            }),
        });
    let files = answer
        .files()
        .iter()
        .map(|file| ContentBlock::resource_link(link(file)));
    displays.chain(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_text_only_if_both_its_name_and_its_bytes_say_so() {
        let read = |path: &str, bytes: &[u8]| {
            serde_json::to_value(contents("u", path, bytes.to_vec())).expect("JSON")
        };
        let text = json!({"uri": "u", "mimeType": "text/csv", "text": "a,b"});
        assert_eq!(read("a.csv", b"a,b"), text);
        let blob = json!({"uri": "u", "mimeType": "text/csv", "blob": "/w=="});
        assert_eq!(read("a.csv", b"\xff"), blob);
        let png = read("a.png", b"\x89PNG\r\n\x1a\n");
        assert_eq!(png["mimeType"], "image/png");
        assert_eq!(png["blob"], "iVBORw0KGgo=");
        assert_eq!(
            read("a.png", b"<script>")["mimeType"],
            "application/octet-stream"
        );
    }
}
