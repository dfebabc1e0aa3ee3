//! CRC-32C (RFC 9260 appendix A), for the TLV that contains a checksum.

/// The checksum of the concatenated parts.
pub(super) fn of(parts: &[&[u8]]) -> u32 {
    let mut crc = !0u32;
    for &byte in parts.iter().copied().flatten() {
        let [low, ..] = crc.to_le_bytes();
        let step = TABLE.get(usize::from(low ^ byte)).copied().unwrap_or_default();
        crc = (crc >> 8) ^ step;
    }
    !crc
}

/// The polynomial 0x1EDC6F41 with its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0u32;
    while index < 256 {
        let mut crc = index;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    #[test]
    fn known_values() {
        assert_eq!(super::of(&[b"123456789"]), 0xe306_9283, "the check value of CRC-32C");
        assert_eq!(super::of(&[b"1234", b"", b"56789"]), 0xe306_9283);
        assert_eq!(super::of(&[&[0; 32]]), 0x8a91_36aa, "RFC 3720 B.4");
        assert_eq!(super::of(&[]), 0);
    }
}
