package ws_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/internal/ws"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

const limit = 1 << 18

// dial opens a connection to a server that uses the library.
func dial(t *testing.T, serve func(ctx context.Context, c *websocket.Conn)) *ws.Conn {
	t.Helper()
	tier.NeedsHost(t)
	var served sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		defer served.Done()
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"b", "a"}})
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		c.SetReadLimit(-1)
		serve(t.Context(), c)
		_ = c.CloseNow()
	}))
	r, err := ws.Request(t.Context(), s.URL, "a", "c")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ws.Open(resp, resp.Body.(io.ReadWriteCloser), limit)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Sec-Websocket-Protocol"); got != "a" {
		t.Errorf("subprotocol %q", got)
	}
	t.Cleanup(func() { conn.CloseNow(); served.Wait(); s.Close() })
	return conn
}

func echo(ctx context.Context, c *websocket.Conn) {
	for {
		kind, b, err := c.Read(ctx)
		if err != nil || c.Write(ctx, kind, b) != nil {
			return
		}
	}
}

func TestMessagesOfEveryLengthComeBack(t *testing.T) {
	conn := dial(t, echo)
	for i, n := range []int{0, 1, 125, 126, 127, 65535, 65536, limit} {
		kind := ws.Text
		if i%2 == 0 {
			kind = ws.Binary
		}
		want := bytes.Repeat([]byte("message"), n)[:n]
		if err := conn.Write(kind, want); err != nil {
			t.Fatal(err)
		}
		if got, b, err := conn.Read(); got != kind || !bytes.Equal(b, want) || err != nil {
			t.Errorf("%d bytes: kind %d, %d bytes, %v", n, got, len(b), err)
		}
	}
}

func TestPiecesPingsAndTheEnd(t *testing.T) {
	conn := dial(t, func(ctx context.Context, c *websocket.Conn) {
		w, err := c.Writer(ctx, websocket.MessageText)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(w, strings.Repeat("a", 5000)) // the library sends pieces of 4 KiB
		_, _ = io.WriteString(w, strings.Repeat("b", 5000))
		_ = w.Close()
		ctx = c.CloseRead(ctx)
		if err := c.Ping(ctx); err != nil {
			t.Errorf("ping: %v", err)
		}
		_ = c.Close(4001, "replaced")
	})
	if kind, b, err := conn.Read(); kind != ws.Text || string(b) != strings.Repeat("a", 5000)+strings.Repeat("b", 5000) ||
		err != nil {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	_, _, err := conn.Read()
	var e *ws.CloseError
	if !errors.As(err, &e) || e.Code != 4001 || e.Reason != "replaced" {
		t.Fatalf("%v", err)
	}
	if _, _, again := conn.Read(); again != err {
		t.Errorf("read again: %v", again)
	}
	if err := conn.Write(ws.Text, []byte("x")); err == nil {
		t.Error("a message was sent behind the close")
	}
}

func TestPing(t *testing.T) {
	conn := dial(t, func(ctx context.Context, c *websocket.Conn) { echo(ctx, c) })
	if err := conn.Ping(20 * time.Millisecond); err == nil {
		t.Error("an answer that nobody read was noticed")
	}
	go func() { _, _, _ = conn.Read() }()
	if err := conn.Ping(5 * time.Second); err != nil {
		t.Error(err)
	}
	if err := conn.Ping(5 * time.Second); err != nil {
		t.Error(err)
	}
	conn.CloseNow()
	if err := conn.Ping(5 * time.Second); err == nil {
		t.Error("a ping over a closed connection")
	}
}

func TestCloseIsHeardAndWaitsForTheAnswer(t *testing.T) {
	heard := make(chan error, 1)
	conn := dial(t, func(ctx context.Context, c *websocket.Conn) {
		_ = c.Write(ctx, websocket.MessageBinary, []byte("on the way"))
		_, _, err := c.Read(ctx)
		heard <- err
	})
	conn.Close(ws.GoingAway, strings.Repeat("é", 100), 5*time.Second)
	var e websocket.CloseError
	if err := <-heard; !errors.As(err, &e) || e.Code != websocket.StatusGoingAway || len(e.Reason) != 123 {
		t.Errorf("%v", err)
	}
}

func TestCloseDoesNotWaitForLong(t *testing.T) {
	closed := make(chan struct{})
	conn := dial(t, func(context.Context, *websocket.Conn) { <-closed }) // the peer does not answer until then
	read := make(chan error, 1)
	go func() { _, _, err := conn.Read(); read <- err }()
	conn.Close(ws.Normal, "", 50*time.Millisecond)
	close(closed)
	if err := <-read; err == nil {
		t.Error("the reader got nothing")
	}
}

// wire is a connection on which the server's data is already waiting.
type wire struct {
	io.Reader
	sent   bytes.Buffer
	closed bool
}

func (w *wire) Write(b []byte) (int, error) { return w.sent.Write(b) }
func (w *wire) Close() error                { w.closed = true; return nil }

// said opens a connection to a server that sends the frames.
func said(t *testing.T, frames string) (*ws.Conn, *wire) {
	t.Helper()
	r, err := ws.Request(t.Context(), "http://server")
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==") // the standard's example
	w := &wire{Reader: iotest.OneByteReader(strings.NewReader(frames))}
	conn, err := ws.Open(&http.Response{StatusCode: 101, Request: r, Header: http.Header{
		"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"WebSocket"},
		"Sec-Websocket-Accept": {"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}}}, w, 300)
	if err != nil {
		t.Fatal(err)
	}
	return conn, w
}

func TestWhatAServerMustNotSay(t *testing.T) {
	big := strings.Repeat("x", 200)
	for name, tc := range map[string]struct {
		frames string
		code   int // code of the CloseError; 0: another error
	}{
		"an extension's bit":           {"\xc1\x01a", ws.ProtocolError},
		"a mask":                       {"\x81\x81\x00\x00\x00\x00a", ws.ProtocolError},
		"an opcode of nobody's":        {"\x83\x01a", ws.ProtocolError},
		"a control opcode of nobody's": {"\x8b\x00", ws.ProtocolError},
		"a ping in pieces":             {"\x09\x00", ws.ProtocolError},
		"a long ping":                  {"\x89\x7e\x00\x80" + big, ws.ProtocolError},
		"the rest of nothing":          {"\x80\x01a", ws.ProtocolError},
		"a message in a message":       {"\x01\x01a\x81\x01b", ws.ProtocolError},
		"half a code":                  {"\x88\x01\x03", ws.ProtocolError},
		"a code that is never sent":    {"\x88\x02\x03\xee", ws.ProtocolError},
		"a close without a code":       {"\x88\x00", ws.NoStatus},
		"too long":                     {"\x81\x7e\x01\x2d" + big + big, ws.TooBig},
		"too long in pieces":           {"\x01\x7e\x00\xc8" + big + "\x80\x7e\x00\xc8" + big, ws.TooBig},
		"longer than there is memory":  {"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", ws.TooBig},
		"half a frame":                 {"\x81\x05ab", 0},
		"half a head":                  {"\x81", 0},
		"the end":                      {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			conn, w := said(t, tc.frames)
			kind, b, err := conn.Read()
			var e *ws.CloseError
			switch {
			case err == nil:
				t.Errorf("read %d %q", kind, b)
			case errors.As(err, &e) != (tc.code != 0), tc.code != 0 && e.Code != tc.code:
				t.Errorf("%v", err)
			case !w.closed:
				t.Error("the connection is open")
			case tc.code != 0 && (w.sent.Len() < 6 || w.sent.Bytes()[0] != 0x88):
				t.Errorf("no close was sent, but %x", w.sent.Bytes())
			}
		})
	}
}

func TestPingsBetweenPiecesAreAnsweredAndPiecesJoined(t *testing.T) {
	conn, w := said(t, "\x01\x01a\x89\x02hi\x00\x00\x8a\x00\x80\x01b")
	kind, b, err := conn.Read()
	if kind != ws.Text || string(b) != "ab" || err != nil {
		t.Errorf("%d %q %v", kind, b, err)
	}
	sent := w.sent.Bytes()
	if len(sent) != 8 || sent[0] != 0x8a || sent[1] != 0x82 || sent[6]^sent[2] != 'h' || sent[7]^sent[3] != 'i' {
		t.Errorf("sent %x", sent)
	}
}

func TestAnswersThatOpenNothing(t *testing.T) {
	good := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-Websocket-Accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Sec-Websocket-Protocol": "A"}
	answer := func(status int, changes ...string) error {
		r, err := ws.Request(t.Context(), "https://server", "b", "a")
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		resp := &http.Response{StatusCode: status, Request: r, Header: http.Header{}}
		for k, v := range good {
			resp.Header.Set(k, v)
		}
		for i := 0; i < len(changes); i += 2 {
			resp.Header.Set(changes[i], changes[i+1])
		}
		w := &wire{Reader: strings.NewReader("")}
		_, err = ws.Open(resp, w, 1)
		if w.closed {
			t.Error("the stream was closed")
		}
		return err
	}
	if err := answer(101); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for name, err := range map[string]error{
		"status": answer(200), "connection": answer(101, "Connection", "close"), "upgrade": answer(101, "Upgrade", "h2c"),
		"accept": answer(101, "Sec-Websocket-Accept", "no"), "subprotocol": answer(101, "Sec-Websocket-Protocol", "c"),
		"extension": answer(101, "Sec-Websocket-Extensions", "permessage-deflate"),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
