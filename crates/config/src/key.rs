//! The declaration of one key, from which its reading, default, schema, dump and documentation
//! follow.

use crate::units::format_duration;
use crate::value::Value;
use serde_json::Value as Json;
use std::time::Duration;

/// One key of a table, as declared by its field.
#[derive(Clone, Debug)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// The subtable that contains the key, such as `expect`.
    pub table: Option<&'static str>,
    /// Documentation: the comment of the field.
    pub doc: &'static str,
    /// The default, as written in a file.
    pub default: Option<Json>,
    /// The minimum and the maximum, as written in a file.
    pub range: Option<[Json; 2]>,
    /// Set for a required key: an example of its value.
    pub required: Option<&'static str>,
    /// The word that means no value, such as `off` or `auto`.
    pub none: Option<&'static str>,
    /// Other names that users may try; the error for such a name suggests the right one.
    pub other_names: &'static [&'static str],
    /// Whether the number is a size in bytes, written as in `16KiB`.
    pub is_size: bool,
    /// Whether zero is refused: a limit of zero would let nothing pass.
    pub is_nonzero: bool,
    /// Whether an empty list is refused.
    pub is_filled: bool,
    /// Whether a dump shows the key even at its default.
    pub is_shown: bool,
    /// Returns the JSON Schema of the key's values.
    pub form: fn(&Self) -> Json,
}

impl Key {
    /// A key with values of a type.
    #[must_use]
    pub const fn new<T: Value>(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, form: T::form, ..Self::PLAIN }
    }

    /// A key with values of a type that does not implement [`Value`]; `form` returns the JSON
    /// Schema of the values.
    #[must_use]
    pub const fn with(name: &'static str, doc: &'static str, form: fn(&Self) -> Json) -> Self {
        Self { name, doc, form, ..Self::PLAIN }
    }

    /// A key without any properties.
    pub(crate) const PLAIN: Self = Self {
        name: "",
        table: None,
        doc: "",
        default: None,
        range: None,
        required: None,
        none: None,
        other_names: &[],
        is_size: false,
        is_nonzero: false,
        is_filled: false,
        is_shown: false,
        form: |_| Json::Object(serde_json::Map::new()),
    };

    /// The JSON Schema of the key: the schema of its values, documentation and default.
    #[must_use]
    pub fn schema(&self) -> Json {
        let mut form = (self.form)(self);
        if let Some(table) = form.as_object_mut() {
            if !self.doc.is_empty() {
                table.insert("description".into(), self.doc.into());
            }
            if let Some(default) = &self.default {
                table.insert("default".into(), default.clone());
            }
        }
        form
    }

    /// The range of the number, at most `max`. Without a declared range, it begins at 0.
    pub(crate) fn numbers(&self, max: u64) -> std::ops::RangeInclusive<u64> {
        let bound = |json: &Json| json.as_u64().or_else(|| crate::units::parse_size(json.as_str()?));
        let bounds = self.range.as_ref().and_then(|[low, high]| Some((bound(low)?, bound(high)?)));
        bounds.map_or(0..=max, |(low, high)| low..=high.min(max))
    }
}

/// A value in the declaration of a key, converted to its form in a file.
pub trait Literal {
    /// The value.
    fn json(self) -> Json;
}

macro_rules! literals {
    ($($type:ty)*) => {$(
        impl Literal for $type {
            fn json(self) -> Json {
                self.into()
            }
        }
    )*};
}

literals! { &'static str bool i32 u8 u16 u32 u64 usize }

impl Literal for Duration {
    fn json(self) -> Json {
        format_duration(self).into()
    }
}

impl<T: Literal, const N: usize> Literal for [T; N] {
    fn json(self) -> Json {
        self.into_iter().map(Literal::json).collect()
    }
}
