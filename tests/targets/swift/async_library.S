# An async function in a library without symbols and, as in Swift's own, without call frame information: its beginning, and
# where it goes on when what it awaited has ended.

    .text
    .p2align 4
.Lfirst:
    push %rbp
    push %r14
    lea 8(%rsp), %rbp
    sub $24, %rsp
    mov $501, %edi
    call decode@PLT
    mov -8(%rbp), %r14
    mov 8(%r14), %rcx
    add $16, %rsp
    add $16, %rsp
    pop %rbp
    btr $60, %rbp
    jmp *%rcx

    .p2align 4
.Lresumed:
    push %rbp
    push %r14
    lea 8(%rsp), %rbp
    sub $8, %rsp
    push %rbx
    sub $24, %rsp
    mov %rbp, %rax
    mov (%r14), %rbx
    lea -8(%rbp), %rcx
    mov %rbx, (%rcx)
    mov (%r14), %r14
    sub $8, %rax
    mov %r14, (%rax)
    mov $502, %edi
    call decode@PLT
    mov 8(%rbx), %rcx
    mov %rbx, %r14
    add $24, %rsp
    pop %rbx
    add $16, %rsp
    pop %rbp
    btr $60, %rbp
    jmp *%rcx

    .section .data.rel.ro, "aw", @progbits
    .p2align 3
    .globl library_parts
    .type library_parts, @object
    .size library_parts, 16
library_parts:
    .quad .Lfirst, .Lresumed
    .section .note.GNU-stack, "", @progbits
