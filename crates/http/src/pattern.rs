//! The grammar of a route's path: static segments, `{name}` and a final `{*name}`; and the
//! parameters of a path that matches.

use crate::class;
use std::fmt;

/// Maximum number of segments in a pattern. It bounds the depth of a look-up.
pub const SEGMENTS_MAX: usize = 32;

/// Maximum number of parameters in a pattern. They are stored in an array of fixed size, so that a
/// look-up never allocates.
pub const PARAMS_MAX: usize = 8;

/// One segment of a pattern, which is the text between two slashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Segment {
    /// `{name}`: one non-empty segment.
    Param,
    /// `{*name}`: the remaining path, which may be empty.
    Rest,
    Static(Box<[u8]>),
}

/// A parsed path pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) segments: Vec<Segment>,
    pub(crate) names: Box<[Box<str>]>,
}

/// The parameters of a path.
///
/// The parameters are extracted from the path on demand, because storing their positions would make
/// every look-up more expensive.
#[derive(Clone, Copy)]
pub struct Params<'r, 'p> {
    /// The pattern; `None` for parameters without a route.
    pattern: Option<&'r Pattern>,
    path: &'p [u8],
}

/// The reason why a path pattern is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// A byte that is not valid in a path (RFC 3986 section 3.3), or a brace that does not enclose
    /// a whole segment.
    BadByte(u8),
    /// A parameter name that is empty or contains characters other than letters, digits and `_`.
    BadName,
    /// A parameter name occurs twice.
    DuplicateName,
    /// The first byte is not `/`.
    NoLeadingSlash,
    /// A segment follows a `{*name}`.
    RestNotLast,
    /// More than [`PARAMS_MAX`] parameters.
    TooManyParams,
    /// More than [`SEGMENTS_MAX`] segments.
    TooManySegments,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        let path = text.strip_prefix('/').ok_or(PatternError::NoLeadingSlash)?;
        let mut segments = Vec::new();
        let mut names: Vec<Box<str>> = Vec::new();
        for part in path.split('/') {
            if segments.last() == Some(&Segment::Rest) {
                return Err(PatternError::RestNotLast);
            }
            let (segment, name) = parse_segment(part)?;
            segments.push(segment);
            if let Some(name) = name {
                if names.iter().any(|known| **known == *name) {
                    return Err(PatternError::DuplicateName);
                }
                names.push(name.into());
            }
        }
        if segments.len() > SEGMENTS_MAX {
            return Err(PatternError::TooManySegments);
        }
        if names.len() > PARAMS_MAX {
            return Err(PatternError::TooManyParams);
        }
        Ok(Self { segments, names: names.into() })
    }

    /// Whether the pattern matches exactly one path.
    pub(crate) fn is_static(&self) -> bool {
        self.segments.iter().all(|segment| matches!(segment, Segment::Static(_)))
    }

    /// The bytes of a static pattern.
    pub(crate) fn static_path(&self) -> Vec<u8> {
        let mut path = Vec::new();
        for segment in &self.segments {
            path.push(b'/');
            if let Segment::Static(bytes) = segment {
                path.extend_from_slice(bytes);
            }
        }
        path
    }
}

impl<'r, 'p> Params<'r, 'p> {
    /// The bytes of a parameter, undecoded as in the path.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&'p [u8]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Names and values, in the order of the path.
    pub fn iter(&self) -> impl Iterator<Item = (&'r str, &'p [u8])> {
        let (path, mut start) = (self.path, 1);
        let (names, segments) =
            self.pattern.map_or((&[][..], &[][..]), |of| (&of.names[..], &of.segments[..]));
        let values = segments.iter().filter_map(move |segment| {
            // The path matched this pattern, so it has these segments.
            let end = if *segment == Segment::Rest { path.len() } else { class::segment_end(path, start) };
            let value = path.get(start..end).unwrap_or_default();
            start = end + 1;
            (!matches!(segment, Segment::Static(_))).then_some(value)
        });
        names.iter().map(|name| &**name).zip(values)
    }

    /// Empty parameters.
    #[must_use]
    pub const fn none() -> Self {
        Self { pattern: None, path: &[] }
    }

    /// The parameters of a path that matches `pattern`.
    pub(crate) const fn of(pattern: &'r Pattern, path: &'p [u8]) -> Self {
        Self { pattern: Some(pattern), path }
    }

    pub(crate) const fn pattern(&self) -> Option<&'r Pattern> {
        self.pattern
    }
}

impl fmt::Debug for Params<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name, String::from_utf8_lossy(value))))
            .finish()
    }
}

/// Returns the parameter names of a path pattern, in order.
///
/// # Errors
/// The text is not a pattern.
pub fn param_names(pattern: &str) -> Result<Vec<String>, PatternError> {
    Ok(Pattern::parse(pattern)?.names.iter().map(ToString::to_string).collect())
}

fn parse_segment(part: &str) -> Result<(Segment, Option<&str>), PatternError> {
    if let Some(inner) = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        let (segment, name) = match inner.strip_prefix('*') {
            Some(name) => (Segment::Rest, name),
            None => (Segment::Param, inner),
        };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(PatternError::BadName);
        }
        return Ok((segment, Some(name)));
    }
    match part.bytes().find(|&byte| !is_path_byte(byte)) {
        Some(byte) => Err(PatternError::BadByte(byte)),
        None => Ok((Segment::Static(part.as_bytes().into()), None)),
    }
}

/// Whether a byte is a `pchar` of RFC 3986 section 3.3, or any `%`.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%".contains(&byte)
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadByte(byte @ (b'{' | b'}')) => {
                write!(f, "`{}` must open or close a whole segment, as in /a/{{name}}/b", char::from(*byte))
            }
            Self::BadByte(byte) => write!(f, "byte {:?} is not allowed in a path", char::from(*byte)),
            Self::BadName => f.write_str("a parameter name consists of letters, digits and `_`"),
            Self::DuplicateName => f.write_str("a parameter name occurs twice"),
            Self::NoLeadingSlash => f.write_str("a path begins with `/`"),
            Self::RestNotLast => f.write_str("`{*name}` matches the remaining path and must be last"),
            Self::TooManyParams => write!(f, "more than {PARAMS_MAX} parameters"),
            Self::TooManySegments => write!(f, "more than {SEGMENTS_MAX} segments"),
        }
    }
}

impl std::error::Error for PatternError {}
