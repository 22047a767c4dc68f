module example.com/elvis

go 1.22
