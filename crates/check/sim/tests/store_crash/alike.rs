//! Blocks that agree in checksum and fingerprint and are not equal: the store takes none for the other.
//!
//! Not here    with power that goes: such a block may be taken for a torn one of the log, which is told by its checksum alone

use bytes::Bytes;
use cairn_format::block_crcs;
use cairn_sim::{Rng, World};
use cairn_store::{Choice, DiskGroup};
use cairn_types::{BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, ObjectId};

use crate::{
    script::op,
    shape::{add_devices, devices, format_options, identity, open},
    sing, sound,
};

const BLOCK: usize = cairn_types::BLOCK_BYTES as usize;
/// Blocks of a kind: more than two segments have.
const BLOCKS: u64 = 36;
/// The product of the polynomials of CRC-32C and CRC-64/NVME, the first bit first: blocks that differ by it have one of each.
const MULTIPLE: [u8; 13] = [251, 205, 15, 160, 146, 215, 48, 11, 6, 81, 194, 49, 1];

fn noise(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..BLOCK / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

fn alike(block: &[u8]) -> Vec<u8> {
    let mut other = block.to_vec();
    other[BLOCK - MULTIPLE.len()..].iter_mut().zip(MULTIPLE).for_each(|(byte, more)| *byte ^= more);
    other
}

fn write(component: u128, seq: u64, first_block: u64, block: Vec<u8>) -> Change {
    let (settled, client) = (op(seq - 1), ClientTag::default());
    let blocks = BlockOp::Write { first_block, crcs: block_crcs(&block) };
    let op = ComponentOp::Apply { op: op(seq), settled, client, blocks };
    Change::Component { component: ComponentId(component), op, data: block.into() }
}

/// Goal: equal is what has equal bytes. Method: a component writes noise, another one blocks that differ from it by a multiple of both polynomials, and then a
/// pair of these at once; all is read.
#[test]
fn equal_blocks_are_told_by_their_bytes() {
    sing();
    let world = World::new(7);
    let host = world.add_host("a");
    add_devices(&host);
    let (env, parts, who) = (host.env(), devices(&host), identity(&host));
    let ran = host.run(async move {
        DiskGroup::format(env.clone(), parts.clone(), who, &format_options()).await.expect("it is formatted");
        let group = open(env.clone(), parts).await.expect("it opens");
        group.choose(Choice::shares(true)).await.expect("it is allowed");
        for component in [1, 2, 3] {
            let (component, object) = (ComponentId(component), ObjectId(1));
            let made = Change::CreateComponent { component, object, size_blocks: 200, reserved_blocks: 0 };
            group.append(made).await.expect("there is room");
        }
        // Two of the three are on one device.
        let device = |id: u128| group.component(ComponentId(id)).expect("it is here").device;
        let second = if device(1) == device(2) { 2 } else { 3 };
        assert_eq!(device(1), device(second));
        let first: Vec<Vec<u8>> = (0..BLOCKS).map(noise).collect();
        let other: Vec<Vec<u8>> = first.iter().map(|block| alike(block)).collect();
        assert!(first.iter().zip(&other).all(|(a, b)| a != b && block_crcs(a) == block_crcs(b)));
        for (id, blocks) in [(1, &first), (second, &other)] {
            for (at, block) in (0..).zip(blocks) {
                group.append(write(id, at + 1, at, block.clone())).await.expect("there is room");
            }
            group.append(ComponentOp::Settle { upto: op(BLOCKS) }.on(ComponentId(id))).await.expect("it is here");
            group.drain().await.expect("it goes on");
        }
        let pair = [noise(1000), alike(&noise(1000))].concat();
        group.append(write(1, BLOCKS + 1, 100, pair.clone())).await.expect("there is room");
        group.append(ComponentOp::Settle { upto: op(BLOCKS + 1) }.on(ComponentId(1))).await.expect("it is here");
        group.drain().await.expect("it goes on");
        group.clear_caches(std::time::Duration::from_secs(60)).await.expect("it is open");
        sound(&group, &env, "alike").await;
        let stats = group.stats();
        let read = async |id: u128, first: u64, count: u64| -> Vec<Bytes> {
            let contents = group.read(ComponentId(id), BlockRange::new(first, count as u32)).await.expect("it reads");
            contents.into_bytes()
        };
        assert!(read(1, 0, BLOCKS).await.concat() == first.concat(), "{stats:?}");
        assert!(read(second, 0, BLOCKS).await.concat() == other.concat(), "{stats:?}");
        assert!(read(1, 100, 2).await.concat() == pair, "{stats:?}");
        assert!(stats.counters.dedupe_unlike_blocks > 10, "{stats:?}");
        group.close().await;
    });
    ran.expect("no crash was planned");
}
