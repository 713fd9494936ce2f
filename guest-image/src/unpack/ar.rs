//! Reads the outer layer of a `.deb`, an `ar` archive.

use super::Error;

pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) data: &'a [u8],
}

/// The members of an archive, in order. A package has three; more than sixteen are an error.
pub(super) fn members(archive: &[u8]) -> Result<Vec<Member<'_>>, Error> {
    let mut rest = archive
        .strip_prefix(b"!<arch>\n")
        .ok_or(Error::Ar("the magic is missing"))?;
    let mut members = Vec::new();
    while !rest.is_empty() {
        if members.len() == 16 {
            return Err(Error::Ar("it has too many members"));
        }
        let (header, body) = rest
            .split_at_checked(60)
            .ok_or(Error::Ar("a header is cut off"))?;
        if &header[58..] != b"`\n" {
            return Err(Error::Ar("a header is damaged"));
        }
        let size = field(&header[48..58])?
            .parse::<usize>()
            .map_err(|_| Error::Ar("a size is not a number"))?;
        let (data, after) = body
            .split_at_checked(size)
            .ok_or(Error::Ar("a member is cut off"))?;
        members.push(Member {
            name: field(&header[..16])?.trim_end_matches('/'),
            data,
        });
        // Members start at even offsets; the padding of the last one may be missing.
        rest = if size % 2 == 1 {
            after.get(1..).unwrap_or_default()
        } else {
            after
        };
    }
    Ok(members)
}

fn field(bytes: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Ar("a header is not text"))?;
    Ok(text.trim_end_matches(' '))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes an archive in the format of `ar`.
    pub(crate) fn write(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = b"!<arch>\n".to_vec();
        for (name, data) in members {
            let header = format!(
                "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
                0,
                0,
                0,
                100_644,
                data.len()
            );
            archive.extend_from_slice(header.as_bytes());
            archive.extend_from_slice(data);
            if data.len() % 2 == 1 {
                archive.push(b'\n');
            }
        }
        archive
    }

    fn names_and_data(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
        members(archive)
            .expect("a good archive")
            .into_iter()
            .map(|member| (member.name.to_owned(), member.data.to_vec()))
            .collect()
    }

    #[test]
    fn damaged_archives_are_rejected() {
        let good = write(&[("debian-binary", b"2.0\n"), ("data.tar", b"x")]);
        assert!(members(b"").is_err());
        assert!(members(&good[..100]).is_err(), "a header is cut off");
        assert!(members(&good[..71]).is_err(), "a member is cut off");
        let mut huge = good.clone();
        huge[8 + 48..8 + 58].copy_from_slice(b"9999999999");
        assert!(members(&huge).is_err());
        let mut negative = good.clone();
        negative[8 + 48..8 + 58].copy_from_slice(b"-1        ");
        assert!(members(&negative).is_err());
        let many: Vec<(&str, &[u8])> = vec![("x", b""); 17];
        assert!(members(&write(&many)).is_err());
    }

    proptest! {
        #[test]
        fn written_members_can_be_read_back(
            data in prop::collection::vec(
                ("[a-z.]{1,15}", prop::collection::vec(any::<u8>(), 0..50)),
                0..8,
            ),
        ) {
            let members: Vec<(&str, &[u8])> = data
                .iter()
                .map(|(name, data)| (name.as_str(), data.as_slice()))
                .collect();
            prop_assert_eq!(names_and_data(&write(&members)), data);
        }

        #[test]
        fn never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..300), with_magic: bool) {
            if with_magic {
                bytes.splice(0..0, *b"!<arch>\n");
            }
            let _ = members(&bytes);
        }
    }
}
