//! A reply as parsed by a client: status, fields, body. Deliberately not the parser under test.

/// One complete HTTP/1 reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Status line and fields, without the empty line.
    pub head: String,
    /// The body by Content-Length, or all bytes that follow if there is no such field.
    pub body: Vec<u8>,
    /// Number of input bytes that belong to this reply.
    pub len: usize,
}

impl Reply {
    /// Parses the first reply in `bytes`; `None` if it is incomplete or not HTTP. `to_head`: the
    /// request was HEAD.
    pub fn parse(bytes: &[u8], to_head: bool) -> Option<Self> {
        let head_len = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..head_len]).ok()?.to_owned();
        let status: u16 = head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
        let rest = &bytes[head_len + 4..];
        let declared = field(&head, "content-length").and_then(|value| value.parse().ok());
        let body_len = if to_head || status == 204 || status == 304 || status < 200 {
            0
        } else {
            declared.unwrap_or(rest.len())
        };
        let body = rest.get(..body_len)?.to_vec();
        Some(Self { status, head, body, len: head_len + 4 + body_len })
    }

    /// Every reply in `bytes`, and the number of bytes left over.
    pub fn parse_all(mut bytes: &[u8]) -> (Vec<Self>, usize) {
        let mut replies = Vec::new();
        while let Some(reply) = Self::parse(bytes, false) {
            bytes = &bytes[reply.len..];
            replies.push(reply);
        }
        (replies, bytes.len())
    }

    /// The value of the first field with this name, ignoring case.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_apart() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nabcHTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 4";
        let (replies, left) = Reply::parse_all(bytes);
        assert_eq!(replies.iter().map(|reply| reply.status).collect::<Vec<_>>(), [200, 204]);
        assert_eq!((replies[0].body.as_slice(), replies[0].field("a"), left), (&b"abc"[..], Some("b"), 10));
        for cut in 0..46 {
            assert_eq!(Reply::parse(&bytes[..cut], false), None, "cut at {cut}");
        }
        let to_head = Reply::parse(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true).unwrap();
        assert_eq!((to_head.body.len(), to_head.field("content-length")), (0, Some("3")));
    }
}
