import { describe, expect, it } from '@jest/globals'
import { describeValue } from '../../src/protocol/describe-value.js'

describe('describeValue', () => {
  it.each([
    ['https://orders.example/api?x=1', 'https://orders.example/api?x=1'],
    ['https://user:pass@orders.example/a@b', 'https://orders.example/a@b'],
    [`https://orders.example/${'aB3_-'.repeat(8)}`, 'https://orders.example/[cut]'],
    ['é '.repeat(150), 'é '.repeat(100)],
    [['a'], 'array'],
    [undefined, 'undefined'],
    [{}, 'object'],
    [5, 'number']
  ])('shows nothing of %j that may be secret, at most 200 characters, or the type', (value, text) =>
    expect(describeValue(value)).toBe(text)
  )
})
