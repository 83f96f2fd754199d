package board

import (
	"html"
	"strconv"
)

// A Chat is a log of messages that only grows. It is not safe for concurrent
// use: hold one lock over Post and publishing, so that messages are pushed in
// the order of the log.
type Chat struct {
	page     page
	n        int
	messages []byte
}

// NewChat returns an empty log.
func NewChat(style Style) *Chat { return &Chat{page: style.page()} }

// Post appends a message, author and text escaped, and returns its HTML. The
// slice is the caller's.
func (c *Chat) Post(author, text string) []byte {
	from := len(c.messages)
	c.messages = c.page.message(c.messages, c.n, html.EscapeString(author), html.EscapeString(text))
	c.n++
	return append([]byte(nil), c.messages[from:]...)
}

// Next posts a line that follows from the number of messages before it: 100
// to 130 bytes of HTML on average.
func (c *Chat) Next() []byte {
	return c.Post(c.page.line(seeded("chat", strconv.Itoa(c.n))))
}

// Grow posts such lines until the log has at least size bytes of HTML.
func (c *Chat) Grow(size int) {
	for len(c.page.log[0])+len(c.messages)+len(c.page.log[1]) < size {
		c.Next()
	}
}

// HTML returns the whole log. The slice is the caller's.
func (c *Chat) HTML() []byte {
	html := make([]byte, 0, len(c.page.log[0])+len(c.messages)+len(c.page.log[1]))
	html = append(html, c.page.log[0]...)
	html = append(html, c.messages...)
	return append(html, c.page.log[1]...)
}
