// Package conptytest is what tests of programs in pseudo consoles need: the
// test binary as the driver's helper and as the program in the console, and what
// Wine does otherwise than Windows.
//
// Wine gives a program in a pseudo console no standard handles, so there the
// program is started by conwrap.exe, which opens them. And the byte 3 ends Wine's
// console, so there Ctrl-C is a key record. ci/wine/test sets WineVariable to
// the folder of these programs.
package conptytest
