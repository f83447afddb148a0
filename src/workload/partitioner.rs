//! Where a key goes: Kafka's default partitioner, and the offsets that follow from it.
//!
//! Doesn't know: what a key means.
//! Keeps: `partition_of(key, n)` is the partition that a Java or librdkafka producer (`murmur2_random`) gives the key.
//! Tested: here (Kafka's own vectors), roster and orders (partition counts of real topics).
use std::sync::OnceLock;

const M: u32 = 0x5bd1_e995;
const SEED: u32 = 0x9747_b28c;

/// Partition of a key among `partitions`, which must not be 0.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    to_partition(murmur2(key), partitions)
}

/// Kafka's murmur2.
pub fn murmur2(data: &[u8]) -> u32 {
    let (blocks, tail) = data.as_chunks::<4>();
    let mut h = blocks.iter().fold(start(data.len()), |h, block| absorb(h, *block));
    if !tail.is_empty() {
        for (i, byte) in tail.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    finish(h)
}

pub(super) fn to_partition(hash: u32, partitions: u32) -> u32 {
    (hash & 0x7fff_ffff) % partitions
}

// murmur2 in three steps, so that a caller who varies only the last block needn't hash the rest again.

pub(super) fn start(length: usize) -> u32 {
    SEED ^ length as u32
}

pub(super) fn absorb(h: u32, block: [u8; 4]) -> u32 {
    let mut k = u32::from_le_bytes(block).wrapping_mul(M);
    k ^= k >> 24;
    h.wrapping_mul(M) ^ k.wrapping_mul(M)
}

pub(super) fn finish(mut h: u32) -> u32 {
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ (h >> 15)
}

/// Which indexes lie in which partition, for workloads whose keys decide it. Made when first asked for.
#[derive(Default)]
pub(super) struct Placement(OnceLock<Vec<Vec<u32>>>);

impl Placement {
    pub(super) fn index_of(
        &self,
        partition: u32,
        offset: u64,
        partitions: u32,
        all: impl Iterator<Item = u32>,
    ) -> Option<u64> {
        let lists = self.0.get_or_init(|| {
            let mut lists = vec![Vec::new(); partitions as usize];
            for (index, partition) in (0u32..).zip(all) {
                lists[partition as usize].push(index);
            }
            lists
        });
        let list = lists.get(partition as usize)?;
        list.get(usize::try_from(offset).ok()?).map(|index| u64::from(*index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_kafkas_own_test() {
        // org.apache.kafka.common.utils.UtilsTest.testMurmur2
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
    }
}
