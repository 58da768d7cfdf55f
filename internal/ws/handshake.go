package ws

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the handshake's, which proves that the peer read it and nothing more
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// The headers of a handshake.
const (
	headerKey      = "Sec-Websocket-Key"
	headerAccept   = "Sec-Websocket-Accept"
	headerProtocol = "Sec-Websocket-Protocol"
)

// Request returns the handshake request for url (http or https), which offers these subprotocols. The caller sends it,
// over any transport.
func Request(ctx context.Context, url string, offer ...string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-Websocket-Version", "13")
	r.Header.Set(headerKey, base64.StdEncoding.EncodeToString(nonce[:]))
	if len(offer) > 0 {
		r.Header.Set(headerProtocol, strings.Join(offer, ","))
	}
	return r, nil
}

// Open checks the answer to a handshake and returns the connection over stream, which it then owns; on an error stream
// stays open. A message of more than limit bytes ends the connection.
func Open(resp *http.Response, stream io.ReadWriteCloser, limit int) (*Conn, error) {
	if err := check(resp); err != nil {
		return nil, fmt.Errorf("the handshake's answer: %w", err)
	}
	return &Conn{stream: stream, in: bufio.NewReader(stream), limit: limit,
		pong: make(chan struct{}, 1), gone: make(chan struct{})}, nil
}

func check(resp *http.Response) error {
	asked := resp.Request.Header
	switch chosen := resp.Header.Get(headerProtocol); {
	case resp.StatusCode != http.StatusSwitchingProtocols:
		return fmt.Errorf("status %d in place of %d", resp.StatusCode, http.StatusSwitchingProtocols)
	case !lists(resp.Header, "Connection", "upgrade"), !lists(resp.Header, "Upgrade", "websocket"):
		return errors.New("it upgrades to something else")
	case resp.Header.Get(headerAccept) != accept(asked.Get(headerKey)):
		return errors.New("it is not to this handshake")
	case chosen != "" && !lists(asked, headerProtocol, chosen):
		return fmt.Errorf("subprotocol %q was not offered", chosen)
	case resp.Header.Get("Sec-Websocket-Extensions") != "":
		return errors.New("no extension was offered")
	}
	return nil
}

// accept returns a server's answer to a handshake's key.
func accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see the import
	return base64.StdEncoding.EncodeToString(sum[:])
}

// lists reports whether a header's comma-separated list has the word, in any case.
func lists(h http.Header, name, word string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(h[name], ","), ","), func(v string) bool {
		return strings.EqualFold(strings.TrimSpace(v), word)
	})
}
