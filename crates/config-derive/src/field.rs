//! Declaration of a key by its field.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::{
    Attribute, Error, Expr, ExprArray, ExprLit, ExprRange, Field, Ident, Lit, LitStr, Path, Token, Type,
};

/// A field of a table.
pub(crate) struct Declared {
    pub(crate) ident: Ident,
    pub(crate) r#type: Type,
    pub(crate) role: Role,
    pub(crate) key: Key,
}

/// Source of the value of a field.
pub(crate) enum Role {
    Flatten,
    Key,
    Skip(Option<TokenStream>),
    TableName,
}

/// The properties in `#[key(..)]`.
#[derive(Default)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) table: Option<LitStr>,
    pub(crate) doc: String,
    pub(crate) default: Option<TokenStream>,
    pub(crate) default_with: Option<Path>,
    pub(crate) range: Option<[TokenStream; 2]>,
    pub(crate) required: Option<LitStr>,
    pub(crate) none: Option<LitStr>,
    pub(crate) other_names: Option<ExprArray>,
    pub(crate) reader: Option<Reader>,
    pub(crate) flags: Vec<&'static str>,
}

/// A replacement for the type's own reader.
pub(crate) enum Reader {
    /// A function that reads a value.
    Function(Expr),
    /// A module with functions that read, dump and describe a value.
    Module(Path),
    /// A list of words with their values.
    Words(Path),
}

impl Declared {
    pub(crate) fn of(field: &Field) -> syn::Result<Self> {
        let ident = field.ident.clone().ok_or_else(|| Error::new_spanned(field, "a key needs a name"))?;
        let name = ident.to_string().trim_start_matches("r#").to_owned();
        let mut key = Key { name, doc: doc_of(&field.attrs)?, ..Key::default() };
        let mut role = Role::Key;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("key")) {
            attribute.parse_nested_meta(|meta| key.take(&meta, &mut role))?;
        }
        if matches!(role, Role::Key) && key.doc.is_empty() {
            return Err(Error::new_spanned(field, "a key needs a doc comment"));
        }
        Ok(Self { ident, r#type: field.ty.clone(), role, key })
    }
}

impl Key {
    fn take(&mut self, meta: &ParseNestedMeta<'_>, role: &mut Role) -> syn::Result<()> {
        let word = meta.path.require_ident()?.to_string();
        match word.as_str() {
            "default" => self.default = Some(literal(&meta.value()?.parse()?)),
            "default_with" => self.default_with = Some(meta.value()?.parse()?),
            "name" => self.name = meta.value()?.parse::<LitStr>()?.value(),
            "none" => self.none = Some(meta.value()?.parse()?),
            "other_names" => self.other_names = Some(meta.value()?.parse()?),
            "range" => self.range = Some(range(&meta.value()?.parse()?)?),
            "required" => self.required = Some(meta.value()?.parse()?),
            "read" => self.reader = Some(Reader::Function(meta.value()?.parse()?)),
            "with" => self.reader = Some(Reader::Module(meta.value()?.parse()?)),
            "words" => self.reader = Some(Reader::Words(meta.value()?.parse()?)),
            "filled" => self.flags.push("is_filled"),
            "nonzero" => self.flags.push("is_nonzero"),
            "size" => self.flags.push("is_size"),
            "shown" => self.flags.push("is_shown"),
            "flatten" => *role = Role::Flatten,
            "skip" if meta.input.peek(Token![=]) => {
                *role = Role::Skip(Some(meta.value()?.parse::<Expr>()?.to_token_stream()));
            }
            "skip" => *role = Role::Skip(None),
            "table" => self.table = Some(meta.value()?.parse()?),
            "table_name" => *role = Role::TableName,
            _ => return Err(meta.error("unknown property of a key")),
        }
        Ok(())
    }

    /// The name of the key; `SUBTABLE.NAME` for a key in a subtable.
    pub(crate) fn path(&self) -> String {
        let table = self.table.as_ref().map(|table| table.value() + ".");
        format!("{}{}", table.unwrap_or_default(), self.name)
    }

    /// The function that reads a value; `None` for the reader of the type.
    pub(crate) fn read(&self) -> Option<TokenStream> {
        Some(match self.reader.as_ref()? {
            Reader::Function(read) => quote! { #read },
            Reader::Module(with) => quote! { #with::read },
            Reader::Words(words) => quote! { |entry: &::doorbell_config::Entry<'_>| entry.word(&#words) },
        })
    }

    /// The expression that dumps a value; `None` to use the `dump` of its type.
    pub(crate) fn dump(&self, value: &TokenStream) -> Option<TokenStream> {
        match self.reader.as_ref()? {
            Reader::Function(_) => None,
            Reader::Module(with) => Some(quote! { #with::dump(&#value) }),
            Reader::Words(words) => Some(quote! { Some(::doorbell_config::word_of(&#words, #value).into()) }),
        }
    }

    /// The declaration as a value of `doorbell_config::Key`.
    pub(crate) fn declaration(&self, r#type: &Type) -> TokenStream {
        let Self { name, doc, .. } = self;
        let plain = match &self.reader {
            Some(Reader::Module(with)) => quote! { ::doorbell_config::Key::with(#name, #doc, #with::form) },
            Some(Reader::Words(words)) => quote! {
                ::doorbell_config::Key::with(#name, #doc, |_| ::doorbell_config::words_form(&#words))
            },
            Some(Reader::Function(_)) | None => {
                quote! { ::doorbell_config::Key::new::<#r#type>(#name, #doc) }
            }
        };
        let mut fields = Vec::new();
        if let Some(table) = &self.table {
            fields.push(quote! { table: Some(#table) });
        }
        if let Some(default) = &self.default {
            fields.push(quote! { default: Some(#default) });
        }
        if let Some([low, high]) = &self.range {
            fields.push(quote! { range: Some([#low, #high]) });
        }
        if let Some(example) = &self.required {
            fields.push(quote! { required: Some(#example) });
        }
        if let Some(word) = &self.none {
            fields.push(quote! { none: Some(#word) });
        }
        if let Some(names) = &self.other_names {
            fields.push(quote! { other_names: &#names });
        }
        for flag in &self.flags {
            let flag = Ident::new(flag, proc_macro2::Span::call_site());
            fields.push(quote! { #flag: true });
        }
        if fields.is_empty() {
            plain
        } else {
            quote! { ::doorbell_config::Key { #(#fields,)* ..#plain } }
        }
    }
}

/// The lines of a comment as one text.
pub(crate) fn doc_of(attributes: &[Attribute]) -> syn::Result<String> {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &attribute.meta.require_name_value()?.value {
            lines.push(line.value().trim().to_owned());
        }
    }
    Ok(lines.join(" ").trim().to_owned())
}

/// A value, converted to its form in a file.
fn literal(value: &Expr) -> TokenStream {
    match value {
        Expr::Array(array) if array.elems.is_empty() => quote! { ::doorbell_config::Literal::json([""; 0]) },
        value => quote! { ::doorbell_config::Literal::json(#value) },
    }
}

/// Parses `"100ms..=1h"` or `1..=PORT_MAX`.
fn range(value: &Expr) -> syn::Result<[TokenStream; 2]> {
    if let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value {
        let bounds = text.value();
        let (low, high) = bounds
            .split_once("..=")
            .ok_or_else(|| Error::new_spanned(text, "a range is written \"LOW..=HIGH\""))?;
        return Ok([low, high].map(|bound| quote! { ::doorbell_config::Literal::json(#bound) }));
    }
    let Expr::Range(ExprRange { start: Some(low), end: Some(high), .. }) = value else {
        return Err(Error::new_spanned(value.to_token_stream(), "a range is written LOW..=HIGH"));
    };
    Ok([literal(low), literal(high)])
}
