// Go's net/http on connections in memory. Reads batches of streams from stdin, and writes the server's framing of each to stdout.
//
// Input: a count (4 bytes, big endian), then for each stream the length of its first piece, the length of the whole (4 bytes each),
// and the bytes. Output, for each stream in order: the number of requests (1 byte); for each request its method, target, host and body,
// each preceded by its length (4 bytes); why a body is incomplete (0 complete, 1 short, 2 malformed); the status of an error reply, or 0
// (2 bytes).
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"
)

type seen struct {
	method, target, host string
	body                 []byte
}

// conn is one connection, with its input and the results of the server.
type conn struct {
	mu       sync.Mutex
	pieces   [2][]byte
	output   []byte
	requests []seen
	broken   byte
	once     sync.Once
	done     *sync.WaitGroup
}

func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.pieces {
		if len(c.pieces[i]) > 0 {
			n := copy(p, c.pieces[i])
			c.pieces[i] = c.pieces[i][n:]
			return n, nil
		}
	}
	return 0, io.EOF
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = append(c.output, p...)
	return len(p), nil
}

func (c *conn) Close() error {
	c.once.Do(c.done.Done)
	return nil
}

// CloseWrite ends the server's goroutine, which would otherwise wait half a second for the client to read.
func (c *conn) CloseWrite() error {
	runtime.Goexit()
	return nil
}

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory" }

func (*conn) LocalAddr() net.Addr              { return addr{} }
func (*conn) RemoteAddr() net.Addr             { return addr{} }
func (*conn) SetDeadline(time.Time) error      { return nil }
func (*conn) SetReadDeadline(time.Time) error  { return nil }
func (*conn) SetWriteDeadline(time.Time) error { return nil }

type listener chan *conn

func (l listener) Accept() (net.Conn, error) { return <-l, nil }
func (listener) Close() error                { return nil }
func (listener) Addr() net.Addr              { return addr{} }

type key struct{}

func note(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(key{}).(*conn)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.broken = 2
		if errors.Is(err, io.ErrUnexpectedEOF) {
			c.broken = 1
		}
		panic(http.ErrAbortHandler)
	}
	c.requests = append(c.requests, seen{r.Method, r.RequestURI, r.Host, body})
}

// status returns the status of the last error reply, or 0. Only the server sends error replies, not the handler.
func (c *conn) status() uint16 {
	for _, start := range [][]byte{[]byte("HTTP/1.1 4"), []byte("HTTP/1.1 5"), []byte("HTTP/1.0 4"), []byte("HTTP/1.0 5")} {
		if at := bytes.LastIndex(c.output, start); at >= 0 {
			s := c.output[at+9:]
			return uint16(s[0]-'0')*100 + uint16(s[1]-'0')*10 + uint16(s[2]-'0')
		}
	}
	return 0
}

func putBytes(out *bufio.Writer, p []byte) {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(p)))
	out.Write(n[:])
	out.Write(p)
}

func number(in *bufio.Reader) int {
	var n [4]byte
	if _, err := io.ReadFull(in, n[:]); err != nil {
		os.Exit(0)
	}
	return int(binary.BigEndian.Uint32(n[:]))
}

func main() {
	runtime.GOMAXPROCS(1)
	conns := make(listener, 1024)
	server := &http.Server{
		Handler:                      http.HandlerFunc(note),
		ErrorLog:                     log.New(io.Discard, "", 0),
		DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, key{}, c)
		},
	}
	go server.Serve(conns)
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		var done sync.WaitGroup
		batch := make([]*conn, number(in))
		for i := range batch {
			cut, length := number(in), number(in)
			stream := make([]byte, length)
			if _, err := io.ReadFull(in, stream); err != nil {
				os.Exit(1)
			}
			batch[i] = &conn{pieces: [2][]byte{stream[:cut], stream[cut:]}, done: &done}
			done.Add(1)
			conns <- batch[i]
		}
		done.Wait()
		for _, c := range batch {
			out.WriteByte(byte(len(c.requests)))
			for _, r := range c.requests {
				for _, part := range [][]byte{[]byte(r.method), []byte(r.target), []byte(r.host), r.body} {
					putBytes(out, part)
				}
			}
			status := c.status()
			out.Write([]byte{c.broken, byte(status >> 8), byte(status)})
		}
		if out.Flush() != nil {
			os.Exit(1)
		}
	}
}
