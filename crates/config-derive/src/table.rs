//! `#[derive(Table)]`: a struct with named fields.

use crate::field::{Declared, Role, doc_of};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr, Path};

pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "a table must be a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "a table must be a struct with named fields"));
    };
    let fields: Vec<Declared> = fields.named.iter().map(Declared::of).collect::<syn::Result<_>>()?;
    let (name, doc, rules) = (&input.ident, doc_of(&input.attrs)?, Rules::of(input)?);
    let keys: Vec<&Declared> = fields.iter().filter(|field| matches!(field.role, Role::Key)).collect();
    let declarations = keys.iter().map(|field| field.key.declaration(&field.r#type));
    let guards = keys.iter().filter_map(|field| guard(field));
    let (defaults, reads, shows) = (defaults(&fields), reads(&fields), shows(&keys));
    let follow = follows(&keys, false);
    let follow_absent = follows(&keys, true);
    let check = rules.check.map(|check| quote! { #check(&mut table, at); });
    let named = table_name(&fields);
    let inherit = rules.inherits.map(|table| quote! { at.inherit(#table); });
    let flat: Vec<&Declared> = fields.iter().filter(|field| matches!(field.role, Role::Flatten)).collect();
    let properties = properties(&flat);
    let show_flat = flat.iter().map(|field| {
        let ident = &field.ident;
        quote! { ::doorbell_config::Table::show(&self.#ident, to); }
    });
    let hide = rules.useless.map(|useless| quote! { to.hide(#useless(self).as_ref()); });
    let value = as_value(name);
    Ok(quote! {
        #[allow(unused_mut, unused_variables, reason = "which parts are used depends on the table")]
        impl ::doorbell_config::Table for #name {
            const DOC: &'static str = #doc;

            fn keys() -> &'static [::doorbell_config::Key] {
                #(#guards)*
                static KEYS: ::std::sync::OnceLock<Vec<::doorbell_config::Key>> = ::std::sync::OnceLock::new();
                KEYS.get_or_init(|| vec![#(#declarations),*])
            }

            fn defaults() -> &'static Self {
                static DEFAULTS: ::std::sync::OnceLock<#name> = ::std::sync::OnceLock::new();
                DEFAULTS.get_or_init(|| {
                    let keys = Self::keys();
                    let mut table = Self { #(#defaults),* };
                    #(#follow)*
                    table
                })
            }

            #named

            #properties

            fn take(at: &mut ::doorbell_config::Section<'_>) -> Self {
                #inherit
                let (keys, defaults) = (Self::keys(), Self::defaults());
                let mut table = Self { #(#reads),* };
                #(#follow_absent)*
                #check
                table
            }

            fn show(&self, to: &mut ::doorbell_config::Dump) {
                let keys = Self::keys();
                #(#shows)*
                #(#show_flat)*
                #hide
            }
        }

        #value

        impl Default for #name {
            fn default() -> Self {
                <Self as ::doorbell_config::Table>::defaults().clone()
            }
        }
    })
}

/// A table as the value of a key.
fn as_value(name: &Ident) -> TokenStream {
    quote! {
        impl ::doorbell_config::Value for #name {
            const IS_OPTIONAL: bool = true;
            const EXPECTED: &str = ::doorbell_config::TABLES;

            fn read(entry: &::doorbell_config::Entry<'_>) -> Option<Self> {
                entry.read_table()
            }

            fn absent() -> Self {
                Self::default()
            }

            fn dump(&self, _: &::doorbell_config::Key, with_defaults: bool) -> Option<::doorbell_config::Json> {
                Some(::doorbell_config::Table::to_json(self, with_defaults))
            }

            fn form(_: &::doorbell_config::Key) -> ::doorbell_config::Json {
                <Self as ::doorbell_config::Table>::schema()
            }
        }
    }
}

/// The name that the user chose, for tables that have one.
fn table_name(fields: &[Declared]) -> Option<TokenStream> {
    let field = fields.iter().find(|field| matches!(field.role, Role::TableName))?;
    let ident = &field.ident;
    Some(quote! {
        fn name(&self) -> &str {
            &self.#ident
        }
    })
}

/// The function `properties` of a table with flattened fields.
fn properties(flat: &[&Declared]) -> Option<TokenStream> {
    let types = flat.iter().map(|field| &field.r#type);
    let properties = quote! {
        fn properties() -> ::doorbell_config::JsonMap {
            let mut all = ::doorbell_config::properties_of(Self::keys());
            #(::doorbell_config::form::merge(&mut all, <#types as ::doorbell_config::Table>::properties());)*
            all
        }
    };
    (!flat.is_empty()).then_some(properties)
}

/// The properties in `#[table(..)]`.
#[derive(Default)]
struct Rules {
    check: Option<Path>,
    inherits: Option<LitStr>,
    useless: Option<Path>,
}

impl Rules {
    fn of(input: &DeriveInput) -> syn::Result<Self> {
        let mut rules = Self::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("table")) {
            attribute.parse_nested_meta(|meta| {
                let rule = match meta.path.require_ident()?.to_string().as_str() {
                    "check" => &mut rules.check,
                    "inherits" => {
                        rules.inherits = Some(meta.value()?.parse()?);
                        return Ok(());
                    }
                    "useless" => &mut rules.useless,
                    _ => return Err(meta.error("unknown property of a table")),
                };
                *rule = Some(meta.value()?.parse()?);
                Ok(())
            })?;
        }
        Ok(rules)
    }
}

/// Checks at compile time that a key has an optional type, unless it has a default or its own
/// reader, or is required.
fn guard(field: &Declared) -> Option<TokenStream> {
    let key = &field.key;
    let has_default_or_required =
        key.default.is_some() || key.default_with.is_some() || key.required.is_some();
    if has_default_or_required || key.reader.is_some() {
        return None;
    }
    let (r#type, message) = (&field.r#type, format!("`{}` needs a default, or must be required", key.name));
    Some(quote! { const { assert!(<#r#type as ::doorbell_config::Value>::IS_OPTIONAL, #message) }; })
}

/// The default of each field.
fn defaults(fields: &[Declared]) -> Vec<TokenStream> {
    let mut at = 0_usize..;
    let of = |field: &Declared| {
        let ident = &field.ident;
        match &field.role {
            Role::Skip(Some(value)) => return quote! { #ident: #value },
            Role::Skip(None) | Role::TableName | Role::Flatten => {
                return quote! { #ident: Default::default() };
            }
            Role::Key => {}
        }
        let index = at.next();
        match (field.key.read(), &field.key.default) {
            (Some(read), Some(_)) => quote! { #ident: ::doorbell_config::default_by(&keys[#index], #read) },
            (Some(_), None) => quote! { #ident: Default::default() },
            (None, _) => quote! { #ident: ::doorbell_config::default_of(&keys[#index]) },
        }
    };
    fields.iter().map(of).collect()
}

/// The code that reads each field.
fn reads(fields: &[Declared]) -> Vec<TokenStream> {
    let mut at = 0_usize..;
    let of = |field: &Declared| {
        let ident = &field.ident;
        match &field.role {
            Role::Skip(Some(value)) => return quote! { #ident: #value },
            Role::Skip(None) => return quote! { #ident: Default::default() },
            Role::Flatten => return quote! { #ident: ::doorbell_config::Table::take(at) },
            Role::TableName => return quote! { #ident: at.name.to_owned() },
            Role::Key => {}
        }
        let index = at.next();
        match field.key.read() {
            Some(read) => quote! { #ident: at.read_with(&keys[#index], &defaults.#ident, #read) },
            None => quote! { #ident: at.read(&keys[#index], &defaults.#ident) },
        }
    };
    fields.iter().map(of).collect()
}

/// Defaults that depend on other keys, in the order of the fields.
fn follows(keys: &[&Declared], if_absent: bool) -> Vec<TokenStream> {
    let of = |field: &&Declared| {
        let (ident, name, default) = (&field.ident, field.key.path(), field.key.default_with.as_ref()?);
        let follow = quote! { table.#ident = #default(&table); };
        Some(if if_absent {
            quote! { if !at.has_valid(#name) { #follow } }
        } else {
            follow
        })
    };
    keys.iter().filter_map(of).collect()
}

/// The code that dumps each key.
fn shows(keys: &[&Declared]) -> Vec<TokenStream> {
    let of = |(index, field): (usize, &&Declared)| {
        let ident = &field.ident;
        match (field.key.dump(&quote! { self.#ident }), &field.key.default_with) {
            (Some(dump), Some(default)) => {
                let default = field.key.dump(&quote! { #default(self) });
                quote! { to.shown(&keys[#index], #dump, #default.as_ref()); }
            }
            (Some(dump), None) => quote! { to.shown(&keys[#index], #dump, keys[#index].default.as_ref()); },
            (None, Some(default)) => quote! { to.key_with(&keys[#index], &self.#ident, &#default(self)); },
            (None, None) => quote! { to.key(&keys[#index], &self.#ident); },
        }
    };
    keys.iter().enumerate().map(of).collect()
}
