/**
 * An element of index.html.
 *
 * @throws Error where the page has no such element
 */
export function byId<T extends HTMLElement>(id: string, type: abstract new () => T): T {
  const element = document.getElementById(id)
  if (!(element instanceof type)) throw new Error(`The page has no #${id}`)
  return element
}

/** Makes an element of texts and other elements. Texts are never parsed as HTML. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/** A button of a list, such as "End". */
export function makeButton(
  text: string,
  label: string,
  onClick: (button: HTMLButtonElement) => void
): HTMLButtonElement {
  const button = make('button', { type: 'button', class: 'quiet', 'aria-label': label }, text)
  button.addEventListener('click', () => {
    onClick(button)
  })
  return button
}

/** One line below a step, which screen readers announce. */
export function say(statusId: string, text: string, kind: 'good' | 'bad' | 'plain' = 'plain'): void {
  const status = byId(statusId, HTMLElement)
  status.dataset.kind = kind
  status.textContent = text
}

/** What a failure says to people: the text that our client has for them, or the browser's. */
export function sentenceOf(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'userMessage' in error) return String(error.userMessage)
  return error instanceof Error ? error.message : String(error)
}

/**
 * Does what a button is for. Meanwhile the button does not start it a second time, and keeps the focus.
 *
 * @param statusId - where the outcome is said: what `work` resolves with, or the failure
 */
export async function whileBusy(
  button: HTMLButtonElement,
  statusId: string,
  work: () => Promise<string | undefined>
): Promise<void> {
  if (button.ariaBusy === 'true') return
  button.ariaBusy = 'true'
  say(statusId, '')
  try {
    say(statusId, (await work()) ?? '', 'good')
  } catch (error) {
    say(statusId, sentenceOf(error), 'bad')
  } finally {
    button.ariaBusy = null
  }
}

/** Calls `work` at a click on a button of index.html. */
export function onClick(id: string, statusId: string, work: () => Promise<string | undefined>): void {
  const button = byId(id, HTMLButtonElement)
  button.addEventListener('click', () => void whileBusy(button, statusId, work))
}

/** Calls `work` when a form of index.html is submitted, also by the return key. */
export function onSubmit(id: string, statusId: string, work: () => Promise<string | undefined>): void {
  const form = byId(id, HTMLFormElement)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const button = form.querySelector('button')
    if (button !== null) void whileBusy(button, statusId, work)
  })
}

/** A text for the clipboard, at a click. */
export function onCopy(id: string, statusId: string, text: () => string): void {
  onClick(id, statusId, async () => {
    await navigator.clipboard.writeText(text())
    return 'Copied.'
  })
}
