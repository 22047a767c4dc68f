# Async functions with the frames that swiftc 6.0 gives them on x86-64. A function begins with its own context in r14, ends by
# a jump to the function that this names, and leaves r14 as it is; a function that goes on then begins with that of the one
# that ended. Each allocates a size of its own. The test gives them the names that swiftc mangles.

    .text

    .macro function name
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    .endm

    .macro end name
    .cfi_endproc
    .size \name, . - \name
    .endm

    # Swift's linker finds the size of the context by a symbol of this kind, which every async function has.
    .macro end_async name
    end \name
    .pushsection .data
    .globl \name\()_pointer
    .type \name\()_pointer, @object
    .size \name\()_pointer, 8
\name\()_pointer:
    .long 0, 32
    .popsection
    .endm

    .macro allocate size
    mov $\size, %edi
    call decode
    .endm

    # A frame with the context in the word below the saved rbp.
    .macro enter_frame
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    push %r14
    lea 8(%rsp), %rbp
    .cfi_def_cfa %rbp, 16
    sub $24, %rsp
    .endm

    .macro leave_frame
    add $16, %rsp
    add $16, %rsp
    pop %rbp
    btr $60, %rbp
    .cfi_def_cfa %rsp, 8
    .endm

    # The context of the function that is resumed is the caller's of the one that ended.
    .macro take_context
    mov (%r14), %rax
    mov %rax, -8(%rbp)
    mov %rax, %r14
    .endm

    # run(context, function): a part of a task. It leaves rbp to what it calls.
    function run
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    push %r12
    .cfi_def_cfa_offset 24
    .cfi_offset %r12, -24
    push %r13
    .cfi_def_cfa_offset 32
    .cfi_offset %r13, -32
    push %r14
    .cfi_def_cfa_offset 40
    .cfi_offset %r14, -40
    push %r15
    .cfi_def_cfa_offset 48
    .cfi_offset %r15, -48
    mov %rdi, %r14
    call *%rsi
    pop %r15
    .cfi_def_cfa_offset 40
    pop %r14
    .cfi_def_cfa_offset 32
    pop %r13
    .cfi_def_cfa_offset 24
    pop %r12
    .cfi_def_cfa_offset 16
    pop %rbx
    .cfi_def_cfa_offset 8
    ret
    end run

    # As optimised: the context is in r14 alone.
    function plain
    push %rax
    .cfi_def_cfa_offset 16
    allocate 101
    mov 8(%r14), %rcx
    pop %rax
    .cfi_def_cfa_offset 8
    jmp *%rcx
    end_async plain

    # It was moved to another register.
    function moved
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    mov %r14, %rbx
    xor %r14d, %r14d
    allocate 102
    mov %rbx, %r14
    mov 8(%r14), %rcx
    pop %rbx
    .cfi_def_cfa_offset 8
    jmp *%rcx
    end_async moved

    # It was saved on the stack.
    function spilled
    sub $24, %rsp
    .cfi_def_cfa_offset 32
    mov %r14, 8(%rsp)
    xor %r14d, %r14d
    allocate 103
    mov 8(%rsp), %r14
    mov 8(%r14), %rcx
    add $24, %rsp
    .cfi_def_cfa_offset 8
    jmp *%rcx
    end_async spilled

    # As not optimised: a frame.
    function framed
    enter_frame
    mov $7, %r14d
    allocate 104
    mov -8(%rbp), %r14
    mov 8(%r14), %rcx
    leave_frame
    jmp *%rcx
    end_async framed

    # Its frame lies below the arguments of the next function.
    function passing
    sub $16, %rsp
    push %rbp
    .cfi_def_cfa_offset 32
    .cfi_offset %rbp, -32
    push %r14
    lea 8(%rsp), %rbp
    .cfi_def_cfa %rbp, 32
    sub $24, %rsp
    mov $7, %r14d
    allocate 105
    mov -8(%rbp), %r14
    mov 8(%r14), %rcx
    add $16, %rsp
    add $16, %rsp
    pop %rbp
    .cfi_def_cfa %rsp, 24
    add $16, %rsp
    .cfi_def_cfa_offset 8
    jmp *%rcx
    end_async passing

    # Its frame is marked: bit 60 of the saved rbp (-swift-async-frame-pointer=always).
    function marked
    bts $60, %rbp
    enter_frame
    mov $7, %r14d
    allocate 106
    mov -8(%rbp), %r14
    mov 8(%r14), %rcx
    leave_frame
    jmp *%rcx
    end_async marked

    function handle_resumed
    enter_frame
    take_context
    allocate 201
    mov 8(%r14), %rcx
    leave_frame
    jmp *%rcx
    end handle_resumed

    function body_resumed
    enter_frame
    take_context
    allocate 301
    mov 8(%r14), %rcx
    leave_frame
    jmp *%rcx
    end body_resumed

    # What the runtime does at the end of a task.
    function end_task
    ret
    end end_task

    # They end, whatever their context says.
    function lone
    push %rax
    .cfi_def_cfa_offset 16
    allocate 401
    pop %rax
    .cfi_def_cfa_offset 8
    ret
    end_async lone

    function lone_marked
    bts $60, %rbp
    enter_frame
    allocate 402
    leave_frame
    ret
    end_async lone_marked

    .section .note.GNU-stack, "", @progbits
