//! The declaration of one key, from which reading, default, schema, dump and documentation follow.
//!
//! Does not know about: types of values, of which it keeps only the form.

use crate::units::format_duration;
use crate::value::Value;
use serde_json::Value as Json;
use std::time::Duration;

/// One key of a table, as its field declares it.
#[derive(Clone, Debug)]
pub struct Key {
    /// As it is written in the file.
    pub name: &'static str,
    /// Documentation: the comment of the field.
    pub doc: &'static str,
    /// Its value where it is left out, as it would be written.
    pub default: Option<Json>,
    /// The least and the greatest value, as they would be written.
    pub range: Option<[Json; 2]>,
    /// It must be written, as in this example.
    pub required: Option<&'static str>,
    /// The word for no value, as `off` or `auto`.
    pub none: Option<&'static str>,
    /// Names that it is looked for by.
    pub other_names: &'static [&'static str],
    /// Whether the number is bytes, written as in `16KiB`.
    pub is_size: bool,
    /// Whether zero is refused because nothing would get through.
    pub is_nonzero: bool,
    /// Whether a list must have an element.
    pub is_filled: bool,
    /// Whether a dump shows it even at its default.
    pub is_shown: bool,
    /// The JSON Schema of its values alone.
    pub form: fn(&Self) -> Json,
}

impl Key {
    /// A key for values of a type.
    #[must_use]
    pub const fn new<T: Value>(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, form: T::form, ..Self::PLAIN }
    }

    /// A key for values of a form, of types that are read by a module of their own.
    #[must_use]
    pub const fn with(name: &'static str, doc: &'static str, form: fn(&Self) -> Json) -> Self {
        Self { name, doc, form, ..Self::PLAIN }
    }

    /// A key about which nothing is known.
    pub(crate) const PLAIN: Self = Self {
        name: "",
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

    /// The JSON Schema of the key: form of its values, documentation and default.
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

    /// The least and the greatest number, as far as the type goes without a range.
    pub(crate) fn numbers(&self, max: u64) -> std::ops::RangeInclusive<u64> {
        let bound = |json: &Json| json.as_u64().or_else(|| crate::units::parse_size(json.as_str()?));
        let bounds = self.range.as_ref().and_then(|[low, high]| Some((bound(low)?, bound(high)?)));
        bounds.map_or(0..=max, |(low, high)| low..=high)
    }
}

/// A value in a declaration, as it would be written in a file.
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
