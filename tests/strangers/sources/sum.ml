let rec build n acc = if n = 0 then acc else build (n - 1) (string_of_int n :: acc)
let () = Printf.printf "%d\n" (List.length (List.sort compare (build 20000 [])))
