import { byId, makeButton } from './elements.js'
import { showAction } from './wire.js'

/** What a button does. Resolves with the outcome, in a sentence. */
type Work = () => Promise<string | undefined>

/** What a failure says to people: the text that our client has for them, or the browser's. */
export function sentenceOf(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'userMessage' in error) return String(error.userMessage)
  return error instanceof Error ? error.message : String(error)
}

/** A step of the page: its buttons, and the line below it that tells what came of them. An action without a name sends no request. */
export class Step {
  readonly #status: HTMLElement

  constructor(name: string) {
    this.#status = byId(`${name}-status`)
  }

  /** Shows the line, which screen readers announce. */
  say(text: string, kind: 'good' | 'bad' | 'plain' = 'plain'): void {
    this.#status.dataset.kind = kind
    this.#status.textContent = text
  }

  /** Does what a button is for. Meanwhile the button does not start it a second time, and keeps the focus. */
  async run(button: HTMLButtonElement, action: string, work: Work): Promise<void> {
    if (button.ariaBusy === 'true') return
    button.ariaBusy = 'true'
    this.say('')
    if (action !== '') showAction(action)
    try {
      this.say((await work()) ?? '', 'good')
    } catch (error) {
      this.say(sentenceOf(error), 'bad')
    } finally {
      button.ariaBusy = null
    }
  }

  onClick(id: string, action: string, work: Work): void {
    const button = byId(id, HTMLButtonElement)
    button.addEventListener('click', () => void this.run(button, action, work))
  }

  /** A form, also when it is submitted by the return key. */
  onSubmit(id: string, action: string, work: Work): void {
    const form = byId(id, HTMLFormElement)
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      const button = form.querySelector('button')
      if (button !== null) void this.run(button, action, work)
    })
  }

  /** A text for the clipboard, at a click. */
  onCopy(id: string, text: () => string): void {
    this.onClick(id, '', async () => {
      await navigator.clipboard.writeText(text())
      return 'Copied.'
    })
  }

  /** A button of a list. */
  makeButton(text: string, label: string, action: string, work: Work): HTMLButtonElement {
    const button = makeButton(text, label, () => void this.run(button, action, work))
    return button
  }
}
