//! Reads just enough of ELF to know which shared libraries a program needs.

/// Types of program headers: `PT_LOAD`, `PT_DYNAMIC`.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
/// Tags of the dynamic section: `DT_NULL`, `DT_NEEDED`, `DT_STRTAB`.
const END: u64 = 0;
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
/// The most program headers and dynamic entries that are read.
const MAX_HEADERS: u16 = 64;
const MAX_ENTRIES: usize = 4096;

/// The names of the libraries that a 64-bit little-endian ELF file needs; `None` if its tables are
/// broken.
pub(crate) fn needed(file: &[u8]) -> Option<Vec<&str>> {
    let headers = at(u64_at(file, 32)?)?;
    let (size, count) = (usize::from(u16_at(file, 54)?), u16_at(file, 56)?);
    if size < 56 || count > MAX_HEADERS {
        return None;
    }
    let mut mapped = Vec::new();
    let mut dynamic = None;
    for number in 0..usize::from(count) {
        let header = file.get(headers.checked_add(number * size)?..)?;
        let segment = Segment {
            offset: u64_at(header, 8)?,
            address: u64_at(header, 16)?,
            length: u64_at(header, 32)?,
        };
        match u32_at(header, 0)? {
            LOAD => mapped.push(segment),
            DYNAMIC => dynamic = Some(segment),
            _ => {}
        }
    }
    let Some(dynamic) = dynamic else {
        return Some(Vec::new());
    };
    let table = file.get(at(dynamic.offset)?..)?;
    let table = table.get(..at(dynamic.length)?)?;
    let mut names = Vec::new();
    let mut strings = None;
    for entry in table.chunks_exact(16).take(MAX_ENTRIES) {
        match (u64_at(entry, 0)?, u64_at(entry, 8)?) {
            (END, _) => break,
            (NEEDED, name) => names.push(name),
            (STRINGS, address) => {
                strings = mapped.iter().find_map(|segment| segment.offset_of(address));
            }
            _ => {}
        }
    }
    let strings = match strings {
        Some(offset) => file.get(at(offset)?..)?,
        None if names.is_empty() => &[],
        None => return None,
    };
    names
        .into_iter()
        .map(|name| text_at(strings, name))
        .collect()
}

/// A segment of the file, and the address that it is mapped to.
struct Segment {
    offset: u64,
    address: u64,
    length: u64,
}

impl Segment {
    fn offset_of(&self, address: u64) -> Option<u64> {
        let inside = address.checked_sub(self.address)?;
        (inside < self.length).then(|| self.offset.checked_add(inside))?
    }
}

fn text_at(strings: &[u8], start: u64) -> Option<&str> {
    let rest = strings.get(at(start)?..)?;
    let end = rest.iter().take(256).position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn at(offset: u64) -> Option<usize> {
    usize::try_from(offset).ok()
}

fn u16_at(bytes: &[u8], start: usize) -> Option<u16> {
    Some(u16::from_le_bytes(
        bytes.get(start..start.checked_add(2)?)?.try_into().ok()?,
    ))
}

fn u32_at(bytes: &[u8], start: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(start..start.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u64_at(bytes: &[u8], start: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(start..start.checked_add(8)?)?.try_into().ok()?,
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes an ELF file that needs these libraries: one mapped segment, the dynamic section, the
    /// names.
    pub(crate) fn write(machine: u16, needed: &[&str]) -> Vec<u8> {
        let (headers, base) = (64_u64, 0x1000_u64);
        let table = headers + 2 * 56;
        let strings = table + 16 * (needed.len() as u64 + 2);
        let mut names = vec![0];
        let mut entries = Vec::new();
        for name in needed {
            entries.push((NEEDED, names.len() as u64));
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        entries.push((STRINGS, base + strings));
        entries.push((END, 0));
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
        file.extend_from_slice(&machine.to_le_bytes());
        file.resize(64, 0);
        file[32..40].copy_from_slice(&headers.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&2_u16.to_le_bytes());
        let whole = strings + names.len() as u64;
        for (kind, offset, address, length) in [
            (LOAD, 0, base, whole),
            (DYNAMIC, table, base + table, strings - table),
        ] {
            file.extend_from_slice(&kind.to_le_bytes());
            file.extend_from_slice(&[0; 4]);
            for number in [offset, address, address, length, length, 0] {
                file.extend_from_slice(&number.to_le_bytes());
            }
        }
        for (tag, value) in entries {
            file.extend_from_slice(&tag.to_le_bytes());
            file.extend_from_slice(&value.to_le_bytes());
        }
        file.extend_from_slice(&names);
        file
    }

    #[test]
    fn needed_libraries_are_read() {
        assert_eq!(
            needed(&write(62, &["libc.so.6", "libm.so.6"])).unwrap(),
            ["libc.so.6", "libm.so.6"]
        );
        assert!(needed(&write(183, &[])).unwrap().is_empty());
        // The program of this test needs libc.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(
            needed(&own)
                .unwrap()
                .iter()
                .any(|name| name.starts_with("libc."))
        );
    }

    #[test]
    fn broken_tables_give_none() {
        let good = write(62, &["libc.so.6"]);
        for length in [0, 20, 60, 100, 200] {
            assert_eq!(needed(&good[..length]), None, "{length}");
        }
        let mut far = good.clone();
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(needed(&far), None);
    }

    proptest! {
        #[test]
        fn never_panics(at in 0..300_usize, bytes in prop::collection::vec(any::<u8>(), 1..9)) {
            let mut file = write(62, &["libc.so.6", "libm.so.6"]);
            let at = at % (file.len() - bytes.len());
            file[at..at + bytes.len()].copy_from_slice(&bytes);
            let _ = needed(&file);
        }
    }
}
