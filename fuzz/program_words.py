# SPDX-License-Identifier: MIT
"""Instructions for program_make.py, by class. %x: an xmm register, %m: one or 16 bytes of memory, aligned; %i: an immediate of 8 bits."""

SSE = {
    "sse2": """addps addpd subps subpd mulps mulpd divps minps maxps maxpd sqrtps andps andnps orps xorps
        pand pandn por pxor paddb paddw paddd paddq paddsb paddusw psubb psubq psubusb pmullw pmulhw pmulhuw pmuludq
        pmaddwd psadbw pavgb pavgw pcmpeqb pcmpeqw pcmpeqd pcmpgtb pcmpgtd punpcklbw punpckhwd punpcklqdq punpckhqdq
        packsswb packssdw packuswb pminub pmaxub pminsw pmaxsw unpcklps unpckhpd cvtdq2ps cvtps2dq cvttps2dq
        psllw pslld psllq psrlw psrld psrlq psraw psrad rcpps movdqa movaps movupd movdqu""",
    "pni": "haddps hsubpd addsubps movsldup movshdup",
    "ssse3": "pshufb pabsb pabsd psignw pmaddubsw phaddw phsubd pmulhrsw",
    "sse4_1": "pmulld pminsd pmaxud pminsb pmaxuw pmuldq pcmpeqq packusdw phminposuw ptest",
    "sse4_2": "pcmpgtq",
    "aes": "aesenc aesdec aesenclast aesimc",
    "sha_ni": "sha1nexte sha1msg1 sha256msg1 sha256msg2",
    "gfni": "gf2p8mulb",
}
SSE_IMMEDIATE = {
    "sse2": "pshufd pshufhw pshuflw shufps shufpd cmpps",
    "ssse3": "palignr",
    "sse4_1": "roundps roundpd blendps blendpd pblendw dpps mpsadbw",
    "sse4_2": "pcmpistri pcmpistrm pcmpestri pcmpestrm",
    "aes": "aeskeygenassist",
    "pclmulqdq": "pclmulqdq",
    "sha_ni": "sha1rnds4",
}
# Scalars: memory of that many bytes.
SSE_SCALAR = {
    4: "addss subss mulss divss minss maxss sqrtss comiss ucomiss cvtss2sd",
    8: "addsd subsd mulsd divsd minsd maxsd sqrtsd comisd ucomisd cvtsd2ss cvtps2pd",
}
# VEX: three operands, xmm or ymm.
AVX = {
    "avx": """addps addpd subps mulpd divps minps maxpd andps andnpd orps xorps unpcklps unpckhpd haddps
        addsubpd""",
    "avx2": """pand pandn por pxor paddb paddw paddd paddq psubb psubw psubusb pmullw pmulhw pmuludq
        pmaddwd psadbw pavgb pcmpeqb pcmpgtd punpcklbw punpckhqdq packsswb packuswb pminub pmaxsw
        pshufb psignw phaddw pmulld pminsd pmuldq""",
}
AVX_IMMEDIATE = {"avx": "shufps shufpd cmpps blendps dpps", "avx2": "palignr pblendw mpsadbw"}
AVX_SHIFTS = "psllw pslld psllq psrlw psrld psrlq psraw psrad"
FMA = "vfmadd132ps vfmadd213pd vfmadd231ps vfnmadd213ps vfmsub231pd vfmaddsub132ps"
# EVEX: three operands, masked, with a size of element for the broadcast.
EVEX = {
    "avx512f": ("""vaddps:4 vaddpd:8 vmulps:4 vsubpd:8 vminps:4 vmaxpd:8 vpaddd:4 vpaddq:8 vpsubd:4 vpmulld:4 vpandd:4 vpandq:8
        vporq:8 vpxord:4 vpandnq:8 vpminsd:4 vpmaxuq:8 vpsllvd:4 vpsravq:8 vprolvd:4 vprorvq:8 vpermt2d:4 vpermi2q:8
        vunpcklps:4 vpunpckhqdq:8 vpmuludq:8 vscalefps:4"""),
    "avx512bw": "vpaddb:0 vpaddw:0 vpsubusb:0 vpmullw:0 vpshufb:0 vpermw:0 vpsllvw:0 vpavgb:0 vpmaddwd:0",
    "avx512_vbmi": "vpermb:0 vpermt2b:0",
    "avx512ifma": "vpmadd52luq:8",
    "avx512_vnni": "vpdpbusd:4",
    "avx512_vbmi2": "vpshldvd:4",
}
EVEX_IMMEDIATE = {"avx512f": "vpternlogd:4 vpternlogq:8 valignd:4 vshufps:4 vfixupimmps:4", "avx512dq": "vrangeps:4"}
EVEX_TWO = {
    "avx512f": "vmovaps vmovdqu64 vmovdqa32 vpabsd vsqrtps vcvtdq2ps vrcp14ps vgetexppd vcompressps vexpandpd vpcompressd vpexpandq",
    "avx512cd": "vpconflictd vplzcntq",
    "avx512bw": "vmovdqu8 vpabsb",
    "avx512_vpopcntdq": "vpopcntd",
    "avx512_bitalg": "vpopcntb",
}
X87 = """fld1 fldz fldpi fldl2e fabs fchs fsqrt fsin fcos fptan fpatan f2xm1 fyl2x fprem fprem1 frndint fscale fxtract
    fxam ftst fnop fincstp fdecstp fxch fadd fmul fsub fdiv fdivr fsubr fucom fcom fldln2 fldlg2"""
CONDITIONS = "o no b ae e ne be a s ns p np l ge le g".split()
