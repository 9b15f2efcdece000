import type { DidAuthClientError } from 'express-did-auth/client'
import { getElement, make } from './elements.js'

/** What a button does. Resolves with the outcome in a sentence, or with nothing to say. */
type Work = () => Promise<unknown>

/** What a failure says to people: the text that our client has for them, or the browser's. */
export function describeError(error: unknown): string {
  const { userMessage, message = String(error), retryAfterSeconds } = Object(error) as Partial<DidAuthClientError>
  const wait = retryAfterSeconds === undefined ? '.' : ` in ${retryAfterSeconds} seconds.`
  return (userMessage ?? message).replace(/\.$/, wait)
}

type Place = HTMLElement | null | undefined

/** Where the answer to a button is shown, which screen readers announce: below the button, or below its group. */
const findPlace = (element: Element): Place =>
  element.closest(':has(> [role=status])')?.querySelector<HTMLElement>(':scope > [role=status]')

/** Shows an answer. */
export function showAnswer(place: Place, text: string, kind: 'good' | 'bad' | 'plain' = 'plain'): void {
  if (!place) return
  place.dataset.kind = kind
  place.textContent = text
}

let users = 0

/** What is shown from now on is of another user. */
export const changeUser = (): number => (users += 1)

/** Waits for what is of the present user. Where they have changed meanwhile, it fails and nothing is shown. */
export async function waitForUser<T>(work: Promise<T>): Promise<T> {
  const user = users
  const result = await work
  if (user !== users) throw new Error('The user has changed.')
  return result
}

/** Does what a button is for. Meanwhile the button does not start it a second time, and keeps the focus. */
async function run(button: HTMLButtonElement, work: Work): Promise<void> {
  if (button.ariaBusy === 'true') return
  button.ariaBusy = 'true'
  // Before the work, which may replace the list that the button is of.
  const [place, user] = [findPlace(button), users]
  showAnswer(place, '')
  try {
    const outcome = await work()
    if (user === users) showAnswer(place, typeof outcome === 'string' ? outcome : '', 'good')
  } catch (error) {
    if (user === users) showAnswer(place, describeError(error), 'bad')
  } finally {
    button.ariaBusy = null
  }
}

export function onClick(button: HTMLButtonElement | string, work: Work): void {
  const element = typeof button === 'string' ? getElement(button, HTMLButtonElement) : button
  element.addEventListener('click', () => void run(element, work))
}

/** A form, also when it is submitted by the return key. */
export function onSubmit(id: string, work: Work): void {
  const form = getElement(id, HTMLFormElement)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const button = form.querySelector('button')
    if (button !== null) void run(button, work)
  })
}

/** A text for the clipboard, at a click. */
export function onCopy(id: string, text: () => string): void {
  onClick(id, async () => {
    await navigator.clipboard.writeText(text())
    return 'Copied.'
  })
}

/** A button of a list, such as "End". */
export function makeButton(text: string, label: string, work: Work): HTMLButtonElement {
  const button = make('button', { type: 'button', class: 'quiet', 'aria-label': label }, text)
  onClick(button, work)
  return button
}
