package session

// TooLarge is a payload beyond [MaxEventBytes].
type TooLarge struct{}

func (TooLarge) eventType() string { return TypeToolResult }

func (TooLarge) write(o *object, _ redactor) { o.raw("text", make([]byte, MaxEventBytes)) }
