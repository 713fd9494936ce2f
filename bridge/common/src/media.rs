//! What bytes are: pictures by their first bytes, which a hostile name or type cannot change, files by the end of their
//! name.

/// The kind of a picture that models take.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// By the end of a file's name.
pub fn by_name(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "txt" | "log" | "text" => "text/plain",
        "md" | "markdown" => "text/markdown",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "py" => "text/x-python",
        "js" | "mjs" => "text/javascript",
        "json" | "ipynb" => "application/json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "sql" => "application/sql",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "tar" => "application/x-tar",
        "parquet" => "application/vnd.apache.parquet",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "sqlite" | "db" => "application/vnd.sqlite3",
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        _ => "application/octet-stream",
    }
}

/// Of a file with this content: a picture's type is believed only where its bytes say the same.
pub fn of_file(name: &str, bytes: &[u8]) -> &'static str {
    let named = by_name(name);
    match image_type(bytes) {
        Some(found) => found,
        None if is_picture(named) => "application/octet-stream",
        None => named,
    }
}

/// Its content is for reading where it is UTF-8.
pub fn is_text(mime: &str) -> bool {
    mime.starts_with("text/")
        || matches!(
            mime,
            "application/json"
                | "application/x-ndjson"
                | "application/xml"
                | "application/yaml"
                | "application/toml"
                | "application/sql"
                | "image/svg+xml"
        )
}

/// Something to be drawn from bytes; SVG is text.
fn is_picture(mime: &str) -> bool {
    mime.starts_with("image/") && mime != "image/svg+xml"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        let check = |bytes: &[u8], expected| assert_eq!(image_type(bytes), expected);
        check(b"\x89PNG\r\n\x1a\n....", Some("image/png"));
        check(b"\xff\xd8\xff\xe0", Some("image/jpeg"));
        check(b"GIF89a", Some("image/gif"));
        check(b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp"));
        check(b"RIFF\0\0\0\0WAVE", None);
        check(b"<svg/>", None);
        check(b"", None);
    }

    #[test]
    fn a_name_does_not_make_a_picture() {
        assert_eq!(of_file("a.png", b"<script>"), "application/octet-stream");
        assert_eq!(of_file("a.txt", b"\xff\xd8\xff\xe0"), "image/jpeg");
        assert_eq!(of_file("A.CSV", b"1,2"), "text/csv");
        assert_eq!(of_file("a.svg", b"<svg/>"), "image/svg+xml");
        assert_eq!(of_file("noending", b""), "application/octet-stream");
    }
}
