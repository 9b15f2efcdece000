import { describe, expect, it } from '@jest/globals'
import { freezeDeep, readField, isObject } from '../../src/protocol/json.js'

describe('isObject', () => {
  it.each([[{}], [{ a: 1 }], [Object.create(null)]])('returns true for %j', (value) =>
    expect(isObject(value)).toBe(true)
  )

  it.each([[null], [undefined], [[]], ['a'], [5], [true]])('returns false for %j', (value) =>
    expect(isObject(value)).toBe(false)
  )
})

describe('readField', () => {
  it('returns the own property of an object', () => expect(readField({ did: 'a' }, 'did')).toBe('a'))

  it.each([
    ['a field of the prototype', {}, 'constructor'],
    ['a field inherited', Object.create({ did: 'a' }), 'did'],
    ['the length of an array', [1], 'length'],
    ['the length of a string', 'abc', 'length'],
    ['anything of null', null, 'did'],
    ['anything of undefined', undefined, 'did']
  ])('returns undefined for %s', (_name, value, name) => expect(readField(value, name)).toBeUndefined())
})

describe('freezeDeep', () =>
  it('freezes objects and arrays at all levels and returns the same value', () => {
    const value = { a: { b: [{ c: 1 }] } }
    expect(freezeDeep(value)).toBe(value)
    expect([value, value.a, value.a.b, value.a.b[0]].every(Object.isFrozen)).toBe(true)
  }))
