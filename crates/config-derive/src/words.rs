//! `#[derive(Words)]`: an enum without fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, LitStr, Variant};

pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "only an enum has words"));
    };
    let name = &input.ident;
    let mut words = Vec::new();
    for variant in &data.variants {
        if !variant.fields.is_empty() {
            return Err(Error::new_spanned(variant, "a variant of `Words` cannot have fields"));
        }
        let (ident, word) = (&variant.ident, word_of(variant)?);
        words.push(quote! { (#word, Self::#ident) });
    }
    let first = data.variants.first().map(|variant| &variant.ident);
    Ok(quote! {
        impl ::doorbell_config::Words for #name {
            const WORDS: &'static [(&'static str, Self)] = &[#(#words),*];
        }

        impl ::doorbell_config::Value for #name {
            const EXPECTED: &str = ::doorbell_config::TEXTS;

            fn read(entry: &::doorbell_config::Entry<'_>) -> Option<Self> {
                entry.word(<Self as ::doorbell_config::Words>::WORDS)
            }

            fn absent() -> Self {
                Self::#first
            }

            fn dump(&self, _: &::doorbell_config::Key, _: bool) -> Option<::doorbell_config::Json> {
                Some(::doorbell_config::Words::word(*self).into())
            }

            fn form(_: &::doorbell_config::Key) -> ::doorbell_config::Json {
                ::doorbell_config::words_form(<Self as ::doorbell_config::Words>::WORDS)
            }
        }
    })
}

fn word_of(variant: &Variant) -> syn::Result<String> {
    let Some(attribute) = variant.attrs.iter().find(|attribute| attribute.path().is_ident("word")) else {
        return Ok(kebab(&variant.ident.to_string()));
    };
    Ok(attribute.parse_args::<LitStr>()?.value())
}

/// Converts `FullyUp` to `fully-up`.
fn kebab(name: &str) -> String {
    let mut word = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            word.push('-');
        }
        word.extend(letter.to_lowercase());
    }
    word
}
