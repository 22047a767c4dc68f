package main

import "fmt"

func main() {
	m := map[int][]string{}
	for i := 0; i < 200000; i++ {
		m[i%977] = append(m[i%977], fmt.Sprint(i))
	}
	fmt.Println(len(m))
}
