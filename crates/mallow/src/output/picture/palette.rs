//! The colours of pictures: one palette for light windows, and its twin for dark ones. Eyes that see two of the three
//! primary colours tell all of them apart, and text is legible on each.

/// Fills of boxes and areas, each with its twin: `c0`, `c1`, ….
pub const FILLS: [[&str; 2]; 8] = [
    ["#9bd0f5", "#1868ca"],
    ["#df862a", "#5d2e1b"],
    ["#ead537", "#82620b"],
    ["#c58392", "#a54b7e"],
    ["#5196be", "#093451"],
    ["#65f19e", "#3f6d52"],
    ["#84a35e", "#6a703a"],
    ["#ab6fe9", "#7521d7"],
];
/// Colours of the groups beyond these, `rest`.
pub const REST: [&str; 2] = ["#d9d9dd", "#45454a"];
/// Code of the language's own, `r0`, `r1`, `r2`: grey, so that the program stands out.
pub const RUNTIME: [[&str; 2]; 3] = [["#c3c6cc", "#565a61"], ["#cfd2d7", "#4a4d54"], ["#e6e7ea", "#383b41"]];
/// Code in no file, `x`.
const GENERATED: [&str; 2] = ["#fff6d6", "#2e2a1c"];
/// Boxes that are no function, or did not change: `n`.
const NOTHING: [&str; 2] = ["#ffffff", "#24272d"];

/// Strengths of the colours of changes.
pub const STEPS: u32 = 8;

/// The strength of a change that is this part of the largest one, from 0 to 1.
pub fn step(part: f64) -> u32 {
    ((part * f64::from(STEPS)).ceil() as u32).clamp(1, STEPS)
}

/// The number that a name prefers among so many: the same in every picture. A library keeps its number when its version
/// changes.
pub fn preferred(path: &str, among: usize) -> usize {
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.split(".so").next().filter(|n| !n.is_empty()).unwrap_or(file);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    // The low bits of this sum mix badly.
    ((hash ^ hash >> 32) % among.max(1) as u64) as usize
}

/// The fills as rules of a style sheet. Without variables, which few programs but browsers know.
pub fn style() -> String {
    let numbered = |letter: char, fills: &[[&'static str; 2]]| -> Vec<(String, [String; 2])> {
        let rule = |(index, fill): (usize, &[&str; 2])| (format!("{letter}{index}"), fill.map(str::to_owned));
        fills.iter().enumerate().map(rule).collect()
    };
    let mut rules = [numbered('c', &FILLS), numbered('r', &RUNTIME)].concat();
    rules.extend([("rest", REST), ("x", GENERATED), ("n", NOTHING)].map(|(n, f)| (n.to_owned(), f.map(str::to_owned))));
    for step in 1..=STEPS {
        let [more, less] = of_change(step);
        rules.extend([(format!("u{step}"), more), (format!("d{step}"), less)]);
    }
    let lines = |twin: usize| -> String {
        rules.iter().map(|(class, fills)| format!(".{class} {{ fill: {}; }}\n", fills[twin])).collect()
    };
    format!("{}@media screen and (prefers-color-scheme: dark) {{\n{}}}\n", lines(0), lines(1))
}

/// The fills of boxes that have more, and of those that have less, with their twins: the stronger, the more of it.
fn of_change(step: u32) -> [[String; 2]; 2] {
    let part = f64::from(step) / f64::from(STEPS);
    [(8.0, 0.66, 0.36), (214.0, 0.68, 0.42)].map(|(hue, light, dark)| {
        [hex(hue, 0.85, 0.96 - (0.96 - light) * part), hex(hue, 0.15 + 0.55 * part, 0.17 + (dark - 0.17) * part)]
    })
}

/// Colour of a hue in degrees, a saturation and a lightness, as CSS has them.
fn hex(hue: f64, saturation: f64, lightness: f64) -> String {
    let chroma = (1.0 - (2.0 * lightness - 1.0).abs()) * saturation;
    let part = |shift: f64| {
        let at = (hue / 60.0 + shift).rem_euclid(6.0);
        let rise = (2.0 - (at - 2.0).abs().min(2.0)).min(1.0);
        ((lightness - chroma / 2.0 + chroma * rise) * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(2.0), part(0.0), part(4.0))
}

#[cfg(test)]
mod tests {
    use super::{FILLS, GENERATED, NOTHING, REST, RUNTIME, STEPS, hex, of_change, preferred, style};

    /// Red, green and blue in proportion to their light.
    fn light(colour: &str) -> [f64; 3] {
        [1, 3, 5]
            .map(|at| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal")) / 255.0)
            .map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) })
    }

    fn luminance([red, green, blue]: [f64; 3]) -> f64 {
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    #[test]
    fn hues_are_those_of_css() {
        let colours = [0.0, 60.0, 120.0, 180.0, 240.0, 300.0, 30.0].map(|hue| hex(hue, 1.0, 0.5));
        assert_eq!(colours, ["#ff0000", "#ffff00", "#00ff00", "#00ffff", "#0000ff", "#ff00ff", "#ff8000"]);
        assert_eq!((hex(10.0, 0.0, 0.5), hex(77.0, 0.5, 1.0)), ("#808080".to_owned(), "#ffffff".to_owned()));
    }

    #[test]
    fn a_module_prefers_one_colour_whatever_its_version_and_directory() {
        let colour = preferred("/usr/lib/libsqlite3.so.0.8.6", FILLS.len());
        assert_eq!(colour, preferred("/opt/libsqlite3.so.1", FILLS.len()));
        assert_eq!(colour, 0, "another colour than in the pictures that people have");
        assert_ne!(colour, preferred("/usr/lib/libcurl.so.4", FILLS.len()));
    }

    #[test]
    fn text_can_be_read_on_all_of_them() {
        // Black text, and the light text of dark windows; WCAG asks for 4.5.
        let text = [luminance(light("#111111")), luminance(light("#f2f2f2"))];
        let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
        let own = |fills: &[&str; 2]| fills.map(str::to_owned);
        let mut fills: Vec<[String; 2]> = FILLS.iter().chain(&RUNTIME).map(own).collect();
        fills.extend([REST, GENERATED, NOTHING].iter().map(own));
        fills.extend((1..=STEPS).flat_map(of_change));
        for fill in fills {
            for (fill, text) in fill.iter().zip(text) {
                let contrast = contrast(luminance(light(fill)), text);
                assert!(contrast >= 4.5, "{fill}: {contrast}");
            }
        }
    }

    /// Matrices of Machado, Oliveira and Fernandes (2009): what eyes without one kind of cones see.
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    /// CIE L*a*b*, where distances are what eyes tell apart.
    fn seen(colour: &str, eye: &[[f64; 3]; 3]) -> [f64; 3] {
        let raw = light(colour);
        let [r, g, b] = [0, 1, 2].map(|row| (0..3).map(|n| eye[row][n] * raw[n]).sum::<f64>().clamp(0.0, 1.0));
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
        let (y, z) = (f(luminance([r, g, b])), f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089));
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn colour_blind_eyes_tell_all_fills_apart() {
        for twin in [0, 1] {
            let fills: Vec<&str> = FILLS.iter().chain([&REST]).map(|fill| fill[twin]).collect();
            for eye in &EYES {
                for (at, a) in fills.iter().enumerate() {
                    for b in &fills[..at] {
                        let (x, y) = (seen(a, eye), seen(b, eye));
                        let distance = (0..3).map(|n| (x[n] - y[n]).powi(2)).sum::<f64>().sqrt();
                        // 2.3 is just noticeable, side by side.
                        assert!(distance > 15.0, "{a} {b}: {distance}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_fill_has_a_dark_twin() {
        let style = style();
        let (light, dark) = style.split_once("@media screen and (prefers-color-scheme: dark)").expect("dark fills");
        for class in ["c0", "c7", "r2", "rest", "x", "n", "u1", "d8"] {
            let rule = format!(".{class} {{ fill: #");
            assert!(light.contains(&rule) && dark.contains(&rule), "{class}");
        }
    }
}
