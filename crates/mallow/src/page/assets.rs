//! The files of the page, as they are in the command.

use mallow_web::{Request, Response};

/// Names and contents of the files in `assets/`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Policy of the page: it runs and shows what this server sends, and asks it. Nothing of another origin.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const INDEX: &str = "index.html";

/// A file of the page. None: there is none at this path.
pub fn answer(request: &Request) -> Option<Response> {
    let name = match request.path() {
        "/" => INDEX,
        path => path.strip_prefix("/page/").filter(|name| *name != INDEX)?,
    };
    let (_, contents) = FILES.iter().find(|(file, _)| *file == name)?;
    let tag = tag(contents);
    // The browser asks each time whether it has the file already: another version of mallow may be at this port.
    let headers = |answer: Response| {
        answer.with("etag", tag.clone()).with("cache-control", "no-cache").with("content-security-policy", POLICY)
    };
    let known = request.header("if-none-match").is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    Some(headers(if known { Response::empty(304) } else { Response::of(content_type(name), *contents) }))
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// FNV-1a: files are distinguished, nothing is kept from anybody.
fn tag(contents: &[u8]) -> String {
    let hash = contents
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("\"{hash:016x}\"")
}

#[cfg(test)]
mod tests {
    use mallow_web::Request;

    use super::{FILES, answer};

    fn get(path: &str) -> Option<u16> {
        answer(&Request::get(path).expect("an address")).map(|answer| answer.status())
    }

    #[test]
    fn files_of_the_page_are_served_and_nothing_else() {
        assert_eq!(get("/"), Some(200));
        assert!(FILES.iter().all(|(name, _)| *name == "index.html" || get(&format!("/page/{name}")) == Some(200)));
        for wrong in [
            "/page/",
            "/page/../mod.rs",
            "/page/%2e%2e/mod.rs",
            "/page//style.css",
            "/index.html",
            "/page/index.html",
            "/api",
        ] {
            assert_eq!(get(wrong), None, "{wrong}");
        }
    }
}
