//! The machines of the devops workloads: the ten tags, with the suite's value sets.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

const RACKS: u32 = 100;
const SERVICES: u32 = 20;
const SERVICE_VERSIONS: u32 = 2;

/// Regions and their datacenters.
const REGIONS: [(&str, &[&str]); 9] = [
    (
        "us-east-1",
        &["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1e"],
    ),
    ("us-west-1", &["us-west-1a", "us-west-1b"]),
    ("us-west-2", &["us-west-2a", "us-west-2b", "us-west-2c"]),
    ("eu-west-1", &["eu-west-1a", "eu-west-1b", "eu-west-1c"]),
    ("eu-central-1", &["eu-central-1a", "eu-central-1b"]),
    ("ap-southeast-1", &["ap-southeast-1a", "ap-southeast-1b"]),
    ("ap-southeast-2", &["ap-southeast-2a", "ap-southeast-2b"]),
    ("ap-northeast-1", &["ap-northeast-1a", "ap-northeast-1c"]),
    ("sa-east-1", &["sa-east-1a", "sa-east-1b", "sa-east-1c"]),
];
const SYSTEMS: [&str; 3] = ["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"];
const ARCHITECTURES: [&str; 2] = ["x64", "x86"];
const TEAMS: [&str; 4] = ["SF", "NYC", "LON", "CHI"];
const ENVIRONMENTS: [&str; 3] = ["production", "staging", "test"];

/// The suite's name of host number `index`.
pub(crate) fn hostname(index: u32) -> String {
    format!("host_{index}")
}

/// The tags of one host as they stand in line protocol, from the comma after the table's name. No value needs escaping.
pub(super) fn draw_tags(index: u32, random: &mut Xoshiro256PlusPlus) -> String {
    let (region, datacenters) = REGIONS[random.random_range(0..REGIONS.len())];
    let datacenter = pick(datacenters, random);
    let rack = random.random_range(0..RACKS);
    let os = pick(&SYSTEMS, random);
    let arch = pick(&ARCHITECTURES, random);
    let team = pick(&TEAMS, random);
    let service = random.random_range(0..SERVICES);
    let version = random.random_range(0..SERVICE_VERSIONS);
    let environment = pick(&ENVIRONMENTS, random);
    format!(
        ",hostname={},region={region},datacenter={datacenter},rack={rack},os={os},arch={arch},team={team},\
         service={service},service_version={version},service_environment={environment}",
        hostname(index),
    )
}

/// One of some values.
pub(super) fn pick(values: &[&'static str], random: &mut Xoshiro256PlusPlus) -> &'static str {
    values[random.random_range(0..values.len())]
}
