//! Static tokens: adding them to a set, and look-up.

use allocation_counter::measure;
use doorbell_http::auth::{SECRET_LEN_MAX, TOKENS_MAX, TokenError, TokenWarning, Tokens};
use proptest::prelude::*;

const SECRET: &[u8] = b"XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK";

#[test]
fn what_is_taken() {
    let long = vec![b'a'; SECRET_LEN_MAX];
    let too_long = vec![b'a'; SECRET_LEN_MAX + 1];
    type Taken = Result<Option<TokenWarning>, TokenError>;
    let cases: [(&[u8], Taken); 14] = [
        (b"", Err(TokenError::TooShort)),
        (b"123456789012345", Err(TokenError::TooShort)),
        (b"1234567890123456", Ok(Some(TokenWarning::Short))),
        (b"123456789012345678901", Ok(Some(TokenWarning::Short))),
        (b"1234567890123456789012", Ok(None)),
        (b"azAZ09-._~+/azAZ09-._~+/==", Ok(None)),
        (b"1234567890123456789012\n", Err(TokenError::NotToken68)),
        (b"1234567890 123456789012", Err(TokenError::NotToken68)),
        (b"1234567890=123456789012", Err(TokenError::NotToken68)),
        (b"======================", Err(TokenError::NotToken68)),
        (b"12345678901234567890\xc3\xa9", Err(TokenError::NotToken68)),
        (SECRET, Err(TokenError::SecretTaken)),
        (&long, Ok(None)),
        (&too_long, Err(TokenError::TooLong)),
    ];
    for (secret, expect) in cases {
        let mut tokens = Tokens::new();
        tokens.add("first", SECRET).unwrap();
        assert_eq!(tokens.add("second", secret), expect, "{}", secret.escape_ascii());
        assert_eq!(tokens.len(), if expect.is_ok() { 2 } else { 1 });
        assert_eq!(tokens.find(SECRET), Some("first"));
        if expect.is_ok() {
            assert_eq!(tokens.find(secret), Some("second"));
        }
    }
    let mut tokens = Tokens::new();
    tokens.add("first", SECRET).unwrap();
    assert_eq!(tokens.add("first", b"1234567890123456789012"), Err(TokenError::NameTaken));
}

#[test]
fn a_set_has_an_end() {
    let mut tokens = Tokens::new();
    for number in 0..TOKENS_MAX {
        tokens.add(&number.to_string(), format!("secret-number-{number:08}").as_bytes()).unwrap();
    }
    assert_eq!(tokens.add("one more", SECRET), Err(TokenError::TooMany));
    for number in 0..TOKENS_MAX {
        let found = tokens.find(format!("secret-number-{number:08}").as_bytes());
        assert_eq!(found, Some(&*number.to_string()));
    }
    assert_eq!(tokens.find(b"secret-number-00000064"), None);
}

#[test]
fn near_misses() {
    let mut tokens = Tokens::new();
    tokens.add("a", SECRET).unwrap();
    tokens.add("odd length", b"1234567890123456789").unwrap();
    assert_eq!(tokens.find(SECRET), Some("a"));
    assert_eq!(tokens.find(b"1234567890123456789"), Some("odd length"));
    for secret in [SECRET, b"1234567890123456789"] {
        for len in 0..secret.len() {
            assert_eq!(tokens.find(&secret[..len]), None);
        }
        for extra in [b"\0".as_slice(), b"\0\0\0\0\0", b"a", b"=", &[0; 64]] {
            assert_eq!(tokens.find(&[secret, extra].concat()), None, "bytes after a secret are compared");
        }
        for place in 0..secret.len() {
            for bit in 0..8 {
                let mut other = secret.to_vec();
                other[place] ^= 1 << bit;
                assert_eq!(tokens.find(&other), None);
            }
        }
    }
}

#[test]
fn nothing_shows_a_secret() {
    let mut tokens = Tokens::new();
    tokens.add("prometheus", SECRET).unwrap();
    let shown = format!("{tokens:?}");
    assert_eq!(shown, "{\"prometheus\"}");
    let authorization = doorbell_http::auth::Authorization::One(SECRET);
    assert!(!format!("{authorization:?}").contains("XJ7b"));
}

#[test]
fn looking_does_not_allocate() {
    let mut tokens = Tokens::new();
    tokens.add("a", SECRET).unwrap();
    tokens.add("b", b"1234567890123456789012").unwrap();
    let info = measure(|| {
        for presented in [SECRET, b"1234567890123456789012", b"no", &[b'x'; 5000]] {
            std::hint::black_box(tokens.find(std::hint::black_box(presented)));
        }
    });
    assert_eq!(info.count_total, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The set finds the same tokens as a comparison with each entry of a list.
    #[test]
    fn as_a_list_would(
        secrets in prop::collection::vec("[a-c]{16,34}", 0..6),
        presented in "[a-c]{14,36}|\\PC{0,20}",
        pick in any::<prop::sample::Index>(),
    ) {
        let mut tokens = Tokens::new();
        let mut list: Vec<&str> = Vec::new();
        for secret in &secrets {
            let added = tokens.add(secret, secret.as_bytes());
            prop_assert_eq!(added.is_err(), list.contains(&&**secret));
            if added.is_ok() {
                list.push(secret);
            }
        }
        prop_assert_eq!(tokens.find(presented.as_bytes()).is_some(), list.contains(&&*presented));
        if !list.is_empty() {
            let good = *pick.get(&list);
            prop_assert_eq!(tokens.find(good.as_bytes()), Some(good));
        }
    }
}
