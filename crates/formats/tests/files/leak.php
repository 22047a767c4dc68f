<?php
// A string of n bytes takes a block of n + 25 bytes, rounded up to a multiple of 8.
namespace Shop;

class Cart
{
    public array $lines = [];

    public function add(int $count): void
    {
        for ($i = 0; $i < $count; $i++) {
            $this->lines[] = str_repeat('x', 1000);
        }
    }
}

function pages(int $count): array
{
    return array_map(function ($i) {
        return str_repeat('p', 4000);
    }, range(1, $count));
}

$profile = fopen('leak.memprof', 'w');
$cart = new Cart();
$cart->add(20);
$pages = pages(5);
$gone = pages(7);
unset($gone);
$text = strrev(str_repeat('k', 100000));
\memprof_dump_pprof($profile);
file_put_contents('leak.json', json_encode(\memprof_dump_array()));
