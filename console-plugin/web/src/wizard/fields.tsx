// Controls of a form whose id is the field of the LVMCluster, so that an error of the API server finds its way.
import { FormGroup, FormHelperText, HelperText, HelperTextItem, NumberInput, Radio, TextInput } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { useT } from '../i18n';
import { useProblems } from './draft';
import { stepOf } from './steps';

interface Common {
  id: string;
  label: string;
  help?: string;
  /** Why it cannot be changed. */
  fixed?: string;
}

export function useErrors(id: string): string[] {
  const { t } = useT();
  return useProblems(id, stepOf(id)).map((p) => (p.key ? t(p.key, p.values) : p.text));
}

export function Field({ id, label, help, fixed, isRequired, group, children }: Common & { isRequired?: boolean; group?: boolean; children: ReactNode }) {
  const errors = useErrors(id);
  return (
    <FormGroup label={label} fieldId={group ? undefined : id} isRequired={isRequired} role={group ? 'radiogroup' : undefined} id={group ? id : undefined} tabIndex={group ? -1 : undefined} isStack={group}>
      {children}
      <FormHelperText>
        <HelperText id={`${id}-help`}>
          {help && <HelperTextItem>{help}</HelperTextItem>}
          {fixed && <HelperTextItem variant="indeterminate">{fixed}</HelperTextItem>}
          {errors.map((e) => (
            <HelperTextItem key={e} variant="error">
              {e}
            </HelperTextItem>
          ))}
        </HelperText>
      </FormHelperText>
    </FormGroup>
  );
}

export function TextField({ value, onChange, isRequired, placeholder, ...common }: Common & { value: string; onChange: (v: string) => void; isRequired?: boolean; placeholder?: string }) {
  const wrong = useErrors(common.id).length > 0;
  return (
    <Field {...common} isRequired={isRequired}>
      <TextInput
        id={common.id}
        value={value}
        placeholder={placeholder}
        onChange={(_, v) => onChange(v)}
        readOnlyVariant={common.fixed ? 'default' : undefined}
        isRequired={isRequired}
        validated={wrong ? 'error' : 'default'}
        aria-describedby={`${common.id}-help`}
      />
    </Field>
  );
}

export function NumberField({ value, onChange, low, high, unit, ...common }: Common & { value: number; onChange: (v: number) => void; low: number; high: number; unit?: string }) {
  const { t } = useT();
  const within = (n: number) => Math.min(high, Math.max(low, n));
  if (common.fixed)
    return (
      <Field {...common}>
        <TextInput id={common.id} value={`${value}${unit ? ` ${unit}` : ''}`} readOnlyVariant="default" aria-describedby={`${common.id}-help`} />
      </Field>
    );
  return (
    <Field {...common}>
      <NumberInput
        inputProps={{ id: common.id, 'aria-describedby': `${common.id}-help` }}
        inputAriaLabel={common.label}
        minusBtnAriaLabel={t('Decrease: {{label}}', { label: common.label })}
        plusBtnAriaLabel={t('Increase: {{label}}', { label: common.label })}
        value={Number.isNaN(value) ? '' : value}
        min={low}
        max={high}
        unit={unit}
        onMinus={() => onChange(within(value - 1))}
        onPlus={() => onChange(within(value + 1))}
        onChange={(e) => onChange((e.target as HTMLInputElement).value === '' ? NaN : Number((e.target as HTMLInputElement).value))}
      />
    </Field>
  );
}

export interface Option<T extends string> {
  value: T;
  label: string;
  description?: string;
}

export function Choice<T extends string>({ value, options, onChange, ...common }: Common & { value: T; options: Option<T>[]; onChange: (v: T) => void }) {
  return (
    <Field {...common} group>
      {options.map((o) => (
        <Radio
          key={o.value}
          id={`${common.id}-${o.value}`}
          name={common.id}
          label={o.label}
          description={o.description}
          isChecked={value === o.value}
          isDisabled={!!common.fixed && value !== o.value}
          onChange={() => onChange(o.value)}
        />
      ))}
    </Field>
  );
}
