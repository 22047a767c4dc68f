    /* A function whose name is in a supplementary file, as dwz leaves it. */
    .text
    .globl hidden
    .type hidden, @function
hidden:
    nop
    ret
.Lend:
    .size hidden, .Lend - hidden
    .section .note.GNU-stack,"",@progbits

    .section .debug_abbrev,"",@progbits
    .uleb128 1, 0x11
    .byte 1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 2, 0x2e
    .byte 0
    .uleb128 0x03, 0x1f21, 0x11, 0x01, 0x12, 0x07, 0, 0 /* DW_FORM_GNU_strp_alt */
    .byte 0

    .section .debug_info,"",@progbits
    .long .Lunit_end - .Lunit
.Lunit:
    .short 4
    .long 0
    .byte 8
    .byte 1
    .quad hidden, .Lend - hidden
    .byte 2
    .long 0
    .quad hidden, .Lend - hidden
    .byte 0
.Lunit_end:
