//! Colours of modules. They depend on nothing but the file's name, so that a module looks the same in every picture.

/// Fill of the boxes of code that is in no file.
pub const GENERATED: &str = "#fdf1b8";
/// Fill of boxes that are no function.
pub const NOTHING: &str = "#ffffff";

/// The fill of a module's boxes, light enough for black text. Modules of the language are grey, so that those of the
/// program stand out.
pub fn of_module(path: &str, runtime: bool) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    // A library keeps its colour when its version changes.
    let name = file.split(".so").next().filter(|n| !n.is_empty()).unwrap_or(file);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    // The low bits of this sum mix badly.
    let hash = hash ^ hash >> 32;
    let shade = (hash >> 16 & 3) as f64;
    if runtime {
        return hex(220.0, 0.06, 0.80 + shade * 0.035);
    }
    hex((hash % 360) as f64, 0.50 + shade * 0.1, 0.68 + (hash >> 20 & 3) as f64 * 0.03)
}

/// Strengths of the colours of changes.
pub const STEPS: u32 = 8;

/// The strength of a change that is this part of the largest one, from 0 to 1.
pub fn step(part: f64) -> u32 {
    ((part * f64::from(STEPS)).ceil() as u32).clamp(1, STEPS)
}

/// The fill of boxes that have more, and of those that have less: the stronger, the more of it.
pub fn of_change(step: u32) -> [String; 2] {
    let part = f64::from(step) / f64::from(STEPS);
    [(8.0, 0.66), (214.0, 0.68)].map(|(hue, strongest)| hex(hue, 0.85, 0.96 - (0.96 - strongest) * part))
}

/// From hue in degrees, saturation and lightness, as CSS has them.
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
    use super::{STEPS, hex, of_change, of_module};

    #[test]
    fn hues_are_those_of_css() {
        let colours = [0.0, 60.0, 120.0, 180.0, 240.0, 300.0, 30.0].map(|hue| hex(hue, 1.0, 0.5));
        assert_eq!(colours, ["#ff0000", "#ffff00", "#00ff00", "#00ffff", "#0000ff", "#ff00ff", "#ff8000"]);
        assert_eq!((hex(10.0, 0.0, 0.5), hex(77.0, 0.5, 1.0)), ("#808080".to_owned(), "#ffffff".to_owned()));
    }

    #[test]
    fn a_module_has_one_colour_whatever_its_version_and_directory() {
        let colour = of_module("/usr/lib/libsqlite3.so.0.8.6", false);
        assert_eq!(colour, of_module("/opt/libsqlite3.so.1", false));
        assert_eq!(colour, "#b6de9c", "another colour than in the pictures that people have");
        assert_ne!(colour, of_module("/usr/lib/libcurl.so.4", false));
    }

    #[test]
    fn black_text_can_be_read_on_all_of_them() {
        for n in 0..2000 {
            let module = |runtime| of_module(&format!("/usr/lib/lib{n}.so"), runtime);
            let [more, less] = of_change(1 + n % STEPS);
            for colour in [module(false), module(true), more, less] {
                let parts: Vec<f64> = [1, 3, 5]
                    .iter()
                    .map(|&at| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal")) / 255.0)
                    .map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) })
                    .collect();
                let luminance = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
                // WCAG asks for 4.5, and 7 of those who want to do well.
                assert!((luminance + 0.05) / 0.05 > 5.0, "{colour}");
            }
        }
    }
}
