//! Logs: any text is answered, and what was made as a log is read as it was made.

use cairn_jobfile::iolog::{Act, Order, Reader, Timed, parse};
use proptest::prelude::*;

const WORDS: [&str; 22] = [
    "fio version 3 iolog\n",
    "fio version 2 iolog\n",
    "\n",
    "\n",
    " ",
    " ",
    "add",
    "open",
    "close",
    "read",
    "write",
    "trim",
    "sync",
    "datasync",
    "wait",
    "a",
    "0",
    "4096",
    "9007199254740992",
    "18446744073709551616",
    "-1",
    "\u{feff}",
];

fn request() -> impl Strategy<Value = (u64, u16, Act, u64, u32)> {
    let act = prop::sample::select(&Act::ALL[..]);
    (0u64..100_000, 0u16..5, act, 0u64..1 << 40, 1u32..=32 << 20)
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        let _ = parse(&text);
        let _ = parse(&format!("fio version 3 iolog\n{text}"));
        let _ = parse(&format!("fio version 2 iolog\n{text}"));
    }

    #[test]
    fn any_words_are_answered(version in 2..4, words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..60)) {
        let _ = parse(&words.concat());
        let _ = parse(&format!("fio version {version} iolog\n{}", words.concat()));
        let _ = parse(&format!("fio version {version} iolog\n{}", words.join(" ")));
    }

    /// Slow oracle: the list that the text was made of. Both versions, whatever the times.
    #[test]
    fn a_log_is_read_as_it_was_made(
        version in 2..4,
        requests in prop::collection::vec(request(), 1..200),
    ) {
        let mut text = format!("fio version {version} iolog\n");
        (0..5).for_each(|file| text += &format!("{}f{file} add\n", if version == 3 { "0 " } else { "" }));
        let (mut now, mut expected) = (0, Vec::new());
        for (wait, file, act, offset, len_bytes) in requests {
            now += wait;
            match version {
                3 => text += &format!("{now} f{file} {act} {offset} {len_bytes}\n"),
                _ => text += &format!("f{file} wait {wait}\nf{file} {act} {offset} {len_bytes}\n"),
            }
            let (offset, len_bytes) = if act.flushes() { (0, 0) } else { (offset, len_bytes) };
            expected.push(Timed { due_us: now, offset, len_bytes, file, act });
        }
        let first = expected[0].due_us;
        let asked: Vec<u16> = (0..5).filter(|file| expected.iter().any(|timed| timed.file == *file)).collect();
        let mut order = Order::default();
        for timed in &mut expected {
            timed.due_us -= first;
            timed.file = asked.iter().position(|file| *file == timed.file).unwrap() as u16;
            order.add(timed);
        }
        let log = parse(&text).unwrap();
        prop_assert_eq!(log.requests().copied().collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(log.order, order);
        prop_assert_eq!(log.len(), expected.len() as u64);
        for (number, file) in log.files.iter().enumerate() {
            let of_file = || expected.iter().filter(|timed| usize::from(timed.file) == number);
            let end = of_file().map(|timed| timed.offset + u64::from(timed.len_bytes)).max().unwrap();
            prop_assert_eq!((file.requests, file.end.0), (of_file().count() as u64, end));
            prop_assert!(of_file().all(|timed| (timed.offset | u64::from(timed.len_bytes)).is_multiple_of(file.grain.0)));
        }
    }
}

/// More than one block of memory.
#[test]
fn a_long_log_is_whole() {
    let mut reader = Reader::default();
    reader.line("fio version 3 iolog").unwrap();
    for n in 0..200_000u64 {
        reader.line(&format!("{n} disk read {} 4096", n * 4096)).unwrap();
    }
    let log = reader.finish().unwrap();
    assert_eq!((log.len(), log.time_us(), log.requests().count()), (200_000, 199_999, 200_000));
    assert!(log.requests().zip(0..).all(|(timed, n)| (timed.due_us, timed.offset) == (n, n * 4096)));
}
