//! A small HTTP server for tests that records its requests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The path of a request, and the start of its range if it has one.
pub(super) type Request = (String, Option<usize>);

pub(super) struct Server {
    pub(super) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers each request with the bytes from `answer`, then closes the connection.
    pub(super) fn start(answer: impl Fn(&Request) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let noted = requests.clone();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let request = read(&stream);
                noted.lock().unwrap().push(request.clone());
                // The client may have closed the connection.
                let _ = (&stream).write_all(&answer(&request));
            }
        });
        Self { address, requests }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Request {
    let mut path = String::new();
    let mut range = None;
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("get ") {
            rest.split(' ').next().unwrap().clone_into(&mut path);
        } else if let Some(rest) = line.strip_prefix("range: bytes=") {
            range = rest.trim_end_matches('-').parse().ok();
        }
    }
    (path, range)
}

/// An answer that may announce more bytes than its body has.
pub(super) fn answer(status: &str, headers: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Status 200 with all data, or 206 with the requested range.
pub(super) fn serve(data: &[u8], request: &Request) -> Vec<u8> {
    match request.1 {
        Some(start) if start < data.len() => {
            let headers = format!(
                "Content-Range: bytes {start}-{}/{}\r\n",
                data.len() - 1,
                data.len()
            );
            answer(
                "206 Partial Content",
                &headers,
                data.len() - start,
                &data[start..],
            )
        }
        Some(_) => answer("416 Range Not Satisfiable", "", 0, b""),
        None => answer("200 OK", "", data.len(), data),
    }
}
