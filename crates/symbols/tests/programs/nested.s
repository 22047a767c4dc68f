    /* One function, with DEPTH inlined functions in each other. */
    .text
    .globl main
    .type main, @function
main:
    nop
    ret
.Lend:
    .size main, .Lend - main
    .section .note.GNU-stack,"",@progbits

    .section .debug_abbrev,"",@progbits
    .uleb128 1, 0x11 /* compile unit, with children */
    .byte 1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 2, 0x2e /* subprogram, with children */
    .byte 1
    .uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 3, 0x1d /* inlined subroutine, with children */
    .byte 1
    .uleb128 0, 0
    .byte 0

    .section .debug_info,"",@progbits
    .long .Lunit_end - .Lunit
.Lunit:
    .short 4
    .long 0
    .byte 8
    .byte 1
    .quad main, .Lend - main
    .byte 2
    .asciz "main"
    .quad main, .Lend - main
    .fill DEPTH, 1, 3
    .fill DEPTH + 2, 1, 0
.Lunit_end:
