//! A JSON parser (RFC 8259) for tokens and key sets. Any value is accepted, but names must be
//! unique in each object, and the depth is limited.

use std::borrow::Cow;

/// A JSON value; strings without escapes borrow from the input.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'a> {
    Array(Vec<Self>),
    Bool(bool),
    Float(f64),
    Integer(i64),
    Null,
    Object(Object<'a>),
    Text(Cow<'a, str>),
}

/// Members, sorted by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Object<'a> {
    /// Parses a text that is exactly one object with unique names.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let mut reader = Reader { text: std::str::from_utf8(text).ok()?, at: 0 };
        reader.skip_space();
        match (reader.value(DEPTH_MAX)?, reader.text.get(reader.at..)?) {
            (Json::Object(object), "") => Some(object),
            _ => None,
        }
    }

    /// The value of a member.
    pub(super) fn find(&self, name: &str) -> Option<&Json<'a>> {
        let place = self.0.binary_search_by(|(found, _)| (**found).cmp(name)).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    /// The text of a member. `None` if the member is missing; an error if it is not a text.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, NotText> {
        match self.find(name) {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(_) => Err(NotText),
        }
    }
}

/// Error: a member that must be a text has another type.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotText;

impl Json<'_> {
    /// The value if it is a text.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether `required` accepts this text, or at least one text of this list. `None` if this
    /// value is neither a text nor a list of texts.
    pub(super) fn names_any(&self, mut required: impl FnMut(&str) -> bool) -> Option<bool> {
        match self {
            Json::Text(text) => Some(required(text)),
            Json::Array(values) => values
                .iter()
                .try_fold(false, |found, value| value.as_text().map(|text| found | required(text))),
            _ => None,
        }
    }
}

/// Maximum depth of nested objects and lists.
const DEPTH_MAX: u32 = 64;

/// A parser. Each method reads one element and the white space after it; `None` means that the
/// input is invalid or unsupported.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth_left: u32) -> Option<Json<'a>> {
        let value = match self.peek()? {
            b'{' => return self.object(depth_left.checked_sub(1)?),
            b'[' => return self.array(depth_left.checked_sub(1)?),
            b'"' => return self.string().map(Json::Text),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => self.number(),
        };
        self.skip_space();
        value
    }

    fn object(&mut self, depth_left: u32) -> Option<Json<'a>> {
        let mut members = Vec::new();
        self.take(b'{');
        if !self.take(b'}') {
            loop {
                let name = self.string()?;
                self.take(b':').then_some(())?;
                members.push((name, self.value(depth_left)?));
                if self.take(b'}') {
                    break;
                }
                self.take(b',').then_some(())?;
            }
        }
        members.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let twice = members.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b));
        (!twice).then_some(Json::Object(Object(members)))
    }

    fn array(&mut self, depth_left: u32) -> Option<Json<'a>> {
        let mut values = Vec::new();
        self.take(b'[');
        if !self.take(b']') {
            loop {
                values.push(self.value(depth_left)?);
                if self.take(b']') {
                    break;
                }
                self.take(b',').then_some(())?;
            }
        }
        Some(Json::Array(values))
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let rest = self.text.get(self.at..)?;
            let len = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
            let plain = rest.get(..len)?;
            if text.is_empty() {
                text = Cow::Borrowed(plain);
            } else {
                text.to_mut().push_str(plain);
            }
            self.at += len + 1;
            match rest.as_bytes().get(len)? {
                b'"' => break,
                b'\\' => text.to_mut().push(self.escape()?),
                _ => return None,
            }
        }
        self.skip_space();
        Some(text)
    }

    /// Reads an escape; the backslash was already read.
    fn escape(&mut self) -> Option<char> {
        let kind = self.peek()?;
        self.at += 1;
        Some(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex4()?;
                if !(0xd800..0xdc00).contains(&first) {
                    // A lone second half of a surrogate pair is not a character.
                    return char::from_u32(first);
                }
                (self.text.get(self.at..self.at + 2)? == "\\u").then_some(())?;
                self.at += 2;
                let second = self.hex4()?.checked_sub(0xdc00).filter(|&low| low < 0x400)?;
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + second);
            }
            _ => return None,
        })
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.chars().try_fold(0, |value, digit| Some(value << 4 | digit.to_digit(16)?))
    }

    fn number(&mut self) -> Option<Json<'a>> {
        let start = self.at;
        self.skip(b"-");
        let leading_zero = self.peek() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || (leading_zero && digits > 1) {
            return None;
        }
        let mut is_whole = true;
        if self.skip(b".") {
            is_whole = false;
            (self.digits() > 0).then_some(())?;
        }
        if self.skip(b"eE") {
            is_whole = false;
            self.skip(b"+-");
            (self.digits() > 0).then_some(())?;
        }
        let text = self.text.get(start..self.at)?;
        match text.parse() {
            Ok(value) if is_whole => Some(Json::Integer(value)),
            _ => text.parse().ok().filter(|value: &f64| value.is_finite()).map(Json::Float),
        }
    }

    /// Skips digits and returns their number.
    fn digits(&mut self) -> usize {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Option<Json<'a>> {
        let found = self.text.get(self.at..)?.starts_with(word);
        self.at += word.len();
        found.then_some(value)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips one byte if it is in `any`.
    fn skip(&mut self, any: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| any.contains(&byte));
        self.at += usize::from(found);
        found
    }

    /// Skips `byte` and the white space after it, if present.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.skip(&[byte]);
        if found {
            self.skip_space();
        }
        found
    }

    fn skip_space(&mut self) {
        while self.skip(b" \t\n\r") {}
    }
}
