package rabbitserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// AMQP's methods, class and method id, that a login meets.
const (
	connectionStart   = 10<<16 | 10
	connectionStartOK = 10<<16 | 11
	connectionTune    = 10<<16 | 30
	connectionTuneOK  = 10<<16 | 31
	connectionOpen    = 10<<16 | 40
	connectionOpenOK  = 10<<16 | 41
	connectionClose   = 10<<16 | 50
)

// maxFrame bounds what is read of the broker in one frame.
const maxFrame = 128 << 10

// login speaks as much of AMQP 0-9-1 as opening a connection takes: this
// package may not depend on a client that something else is tested with.
func login(ctx context.Context, addr, user, password, vhost string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp4", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	if _, err := c.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return fmt.Errorf("send the protocol's header: %w", err)
	}
	if _, err := expect(c, connectionStart); err != nil {
		return err
	}
	var startOK bytes.Buffer
	table := "\x0ccapabilitiesF" + longString("\x1cauthentication_failure_closet\x01")
	startOK.WriteString(longString(table))
	startOK.WriteString(shortString("PLAIN"))
	startOK.WriteString(longString("\x00" + user + "\x00" + password))
	startOK.WriteString(shortString("en_US"))
	if err := send(c, connectionStartOK, startOK.Bytes()); err != nil {
		return err
	}
	tune, err := expect(c, connectionTune)
	if err != nil {
		return fmt.Errorf("log in as %q: %w", user, err)
	}
	if err := send(c, connectionTuneOK, tune); err != nil {
		return err
	}
	if err := send(c, connectionOpen, []byte(shortString(vhost)+"\x00\x00")); err != nil {
		return err
	}
	if _, err := expect(c, connectionOpenOK); err != nil {
		return fmt.Errorf("open virtual host %q as %q: %w", vhost, user, err)
	}
	return nil
}

func shortString(s string) string { return string([]byte{byte(len(s))}) + s }

func longString(s string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func send(w io.Writer, method uint32, args []byte) error {
	frame := []byte{1, 0, 0} // a method frame on channel 0
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(args)))
	frame = binary.BigEndian.AppendUint32(frame, method)
	frame = append(append(frame, args...), 0xCE)
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("send an AMQP frame: %w", err)
	}
	return nil
}

// expect reads one method frame; a connection.close in its place is the
// broker's refusal, with its text.
func expect(r io.Reader, method uint32) ([]byte, error) {
	var head [7]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read an AMQP frame: %w", err)
	}
	size := binary.BigEndian.Uint32(head[3:])
	if size < 4 || size > maxFrame {
		return nil, fmt.Errorf("an AMQP frame of %d bytes", size)
	}
	body := make([]byte, size+1)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read an AMQP frame: %w", err)
	}
	got, args := binary.BigEndian.Uint32(body), body[4:size]
	switch {
	case got == method:
		return args, nil
	case got == connectionClose && len(args) > 3 && len(args) >= 3+int(args[2]):
		return nil, errors.New(string(args[3 : 3+int(args[2])]))
	}
	return nil, fmt.Errorf("AMQP method %#x, not %#x", got, method)
}

// get asks the management API for something and throws it away.
func get(ctx context.Context, url, user, password string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask the management API: %w", err)
	}
	r.SetBasicAuth(user, password)
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the management API answers %s", resp.Status)
	}
	return nil
}
