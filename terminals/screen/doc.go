// Package screen turns a terminal's bytes into text: it finds private markers
// in the raw stream, removes control sequences, keeps a bounded scrollback with
// absolute positions and notices what a program asks of its terminal.
//
// Every byte is looked at once, whatever the stream holds, and nothing depends
// on how it is split across writes.
//
// What becomes of the bytes:
//
//   - CSI, OSC, DCS, SOS, PM and APC sequences, charset selections, two-byte
//     escapes and the C1 controls U+0080 to U+009F are removed whole. CAN and
//     SUB end a sequence, ESC begins another one. A string that a C1 control
//     began also ends with its line, since text that was encoded twice is full
//     of them. A single byte from 0x80 to 0x9f is malformed UTF-8, not a C1
//     control.
//   - Line ends \n, \r\n and \r\r\n are one \n.
//   - Within the open line the cursor is followed: \r, backspace, CUF, CUB, CHA,
//     CUP to 1;1, and EL, ED, ECH, DCH and ICH as far as they concern that line.
//     What a cell held is replaced by what is written over it. On the alternate
//     screen, which is not rendered, movement that is not relative is ignored.
//   - ED 2 and a change to or from the alternate screen end the open line: what
//     was printed stays.
//   - Backspace erases the last cell of the line. Inside a line that is being
//     rewritten it moves the cursor.
//   - Other C0 controls but tab, and DEL, are dropped.
//   - Each malformed byte becomes U+FFFD. Bidirectional controls, zero-width
//     characters, fillers and tags are spelled out: <U+202E>.
package screen
